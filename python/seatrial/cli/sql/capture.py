"""``seatrial sql capture``: a trace of what clients and a server say, by proxy or packets."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from seatrial.cli.options import json_option, trace_output_option

EPILOG: Final = """\b
Examples:
  seatrial sql capture --listen :6432 --to postgresql://db1:5432/prod -o prod.trace
  seatrial sql capture --listen /run/seatrial:5432 --to /run/postgresql:5432 -o prod.trace
  seatrial sql capture --listen 10.0.0.5:6432 --to postgresql://db1 -o prod.trace --mask
  seatrial sql capture --listen :6432 --to postgresql://db1/prod -o prod.trace --rows
  seatrial sql capture --interface lo --to postgresql://127.0.0.1/prod -o prod.trace
  seatrial sql capture --interface eth0 --to 10.0.0.5:5432 -o prod.trace
  seatrial sql capture --pcap monday.pcap --to :5432 -o monday.trace
  seatrial sql capture --recover -o prod.trace           what a killed capture had secured

\b
By a proxy (--listen): clients connect to it as they would to the server, with sslmode=disable: what
is encrypted is passed on and not captured, which is told at once. Ctrl-C, SIGTERM or SIGHUP ends
it: the connections of all clients are closed, what they were about to do is rolled back, and the
trace is completed. Bytes are passed on unaltered; the server sees the proxy's address as its
client's.

\b
From packets (--interface, on the server's machine): nothing stands in between, no client is
changed, and it takes less of the processors. It needs root (CAP_NET_RAW). What is encrypted and
what goes over a socket in a folder cannot be seen: take the proxy for these. Sessions that are
there already are joined when they have no transaction open. Packets that the kernel dropped are
counted, and what is missing of a session is told. --pcap reads what `tcpdump -s 0 -w FILE tcp port
5432` wrote.

\b
Where clients come in:
  --listen :PORT        the loopback interface: this machine only
  --listen HOST:PORT    one address of this machine; others can reach it, with a warning
  --listen DIR[:PORT]   a socket in a folder, .s.PGSQL.PORT, for this user only

\b
Whose packets:
  --interface lo        clients on the server's machine
  --interface eth0      clients of that network; any has all interfaces
  --to :PORT            of any server at this port, and --to HOST:PORT of the one

\b
Exit codes: 0 captured; 2 usage; 4 statements are missing: the trace could not be written to its
end, or not as fast as they came, packets were missing, or what clients said was encrypted or could
not be followed; 5
refused, as a file would be lost; 6 the server cannot be reached; 8 too little space to begin.
"""


@click.command("capture", epilog=EPILOG, short_help="A trace of what passes, by proxy or packets.")
@click.option(
    "--listen",
    "places",
    multiple=True,
    metavar="[HOST]:PORT|DIR",
    help="Where clients come in; may be given several times.",
)
@click.option(
    "--interface",
    metavar="NAME|any",
    help="In place of a proxy, look at the packets of an interface, such as lo; as root.",
)
@click.option(
    "--pcap",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="In place of a proxy, read a file of packets of tcpdump or Wireshark.",
)
@click.option(
    "--to", "--server", "server", metavar="URL|DIR[:PORT]|[HOST]:PORT", help="The server."
)
@trace_output_option
@click.option(
    "--mask",
    is_flag=True,
    help="Replace literals, parameters and returned values by stand-ins of type and length.",
)
@click.option(
    "--rows",
    "with_rows",
    is_flag=True,
    help="At the end read what the tables hold into TRACE.rows, for replays to be held against.",
)
@click.option("--force", is_flag=True, help="Replace the trace if it exists.")
@click.option(
    "--recover", is_flag=True, help="Make a trace of what a capture that was killed had written."
)
@json_option
def capture(
    *,
    places: tuple[str, ...],
    interface: str | None,
    pcap: Path | None,
    server: str | None,
    output: Path,
    mask: bool,
    with_rows: bool,
    force: bool,
    recover: bool,
    as_json: bool,
) -> int:
    """Make a trace of what clients and a server say, as a proxy or from packets.

    Beside what a log tells, it has all parameters, the rows of each statement, and what RETURNING
    and sequences gave back: with these a replay maps generated ids exactly. It holds the data that
    clients send and are told of, and only its owner may read it.
    """
    from seatrial.cli.sql import capturing as sql_capturing  # noqa: PLC0415 - not for --help

    if recover:
        others = bool(places or interface or pcap or server or mask or with_rows)
        sql_capturing.recover_capture(output, force=force, with_others=others)
        return 0
    sql_capturing.require_one_way(places, interface, pcap)
    if interface is not None or pcap is not None:
        packets = {"file": str(pcap)} if interface is None else {"interface": interface}
        wanted = sql_capturing.wanted_packets(packets, server, output, mask=mask, force=force)
    else:
        wanted = sql_capturing.wanted(places, server, output, mask=mask, force=force)
    rows = sql_capturing.rows_output(wanted) if with_rows else None
    captured = sql_capturing.capture_statements(wanted, quiet=as_json)
    if as_json:
        from seatrial.trials.replay.documents import reading_document  # noqa: PLC0415 - only here

        click.echo(reading_document(captured), nl=False)
    else:
        from seatrial.cli.sql.capture_text import capture_text  # noqa: PLC0415 - only here

        click.echo(capture_text(captured))
    code = sql_capturing.exit_code(captured)
    if rows is None:
        return code
    from seatrial.cli.sql.rows import keep_rows  # noqa: PLC0415 - only here

    assert wanted.url is not None  # noqa: S101 - rows_output has seen to it
    return max(code, keep_rows(wanted.url, rows, quiet=as_json))
