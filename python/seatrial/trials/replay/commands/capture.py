"""``seatrial sql capture``: a trace of what clients and a server say, by proxy or packets."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from seatrial import _core, interrupts, program
from seatrial.cli.files import ROWS, Output, keeping_owner, writable_path, writable_trace_path
from seatrial.cli.options import json_option, trace_output_option
from seatrial.errors import (
    EXIT_PARTIAL,
    PartialResult,
    SeatrialError,
    TargetError,
    UsageError,
    native_errors,
)
from seatrial.measure.descriptors import allow_all_descriptors
from seatrial.postgres.remote import requested_system_identifier
from seatrial.postgres.row_content import SUFFIX
from seatrial.stats.wording import (
    format_plural,
)
from seatrial.trials.replay.commands import read as sql_reading
from seatrial.trials.replay.reading import Reading

if TYPE_CHECKING:
    from seatrial.postgres.remote import Client


from seatrial.cli.options import servers_of
from seatrial.trials.replay.report.trace_text import capture_text

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
is encrypted is passed on and not captured, which is reported at once. Ctrl-C, SIGTERM or SIGHUP
ends it: the connections of all clients are closed, what they were about to do is rolled back, and
the trace is completed. Bytes are passed on unaltered; the server sees the proxy's address as its
client's.

\b
From packets (--interface, on the server's machine): nothing stands in between, no client is
changed, and it takes less of the processors. It needs root (CAP_NET_RAW). What is encrypted and
what goes over a socket in a folder cannot be seen: take the proxy for these. Sessions that are
there already are joined when they have no transaction open. Packets that the kernel dropped are
counted, and what is missing of a session is reported. --pcap reads what `tcpdump -s 0 -w FILE tcp
port 5432` wrote.

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

    Besides what a log tells, it has all parameters, the rows of each statement, and what RETURNING
    and sequences gave back: with these a replay maps generated ids exactly. It holds the data that
    clients send and receive, and only its owner may read it.
    """
    if recover:
        others = bool(places or interface or pcap or server or mask or with_rows)
        recover_capture(output, force=force, with_others=others)
        return 0
    require_one_way(places, interface, pcap)
    if interface is not None or pcap is not None:
        packets = {"file": str(pcap)} if interface is None else {"interface": interface}
        wanted = wanted_packets(packets, server, output, mask=mask, force=force)
    else:
        wanted = wanted_by_proxy(places, server, output, mask=mask, force=force)
    rows = rows_output(wanted) if with_rows else None
    captured = capture_statements(wanted, quiet=as_json)
    if as_json:
        from seatrial.trials.replay.documents import reading_document  # noqa: PLC0415 - only here

        click.echo(reading_document(captured), nl=False)
    else:
        click.echo(capture_text(captured))
    code = exit_code(captured)
    if rows is None:
        return code
    from seatrial.trials.replay.commands.rows import keep_rows  # noqa: PLC0415 - only here

    assert wanted.url is not None  # noqa: S101 - rows_output has seen to it
    return max(code, keep_rows(wanted.url, rows, quiet=as_json))


PORT_DEFAULT: Final = 5432
PORT_MAX: Final = 65_535
POLL_S: Final = 0.2
PLACES_MAX: Final = 16

_WARNINGS: Final = {
    "has_failed": (
        "The trace cannot be written any more. Bytes are still passed on; nothing more is "
        "captured. Ctrl-C ends it and tells why."
    ),
    "encrypted": (
        "Warning: a client encrypts its connection, so that nothing of it can be captured. Have "
        "clients connect to the proxy with sslmode=disable (and gssencmode=disable)."
    ),
}
"""What is reported once, as soon as it is seen, by the property that tells it."""
_PACKETS_WARNINGS: Final = {
    "has_failed": (
        "The trace cannot be written any more, and nothing more is captured. Ctrl-C ends it and "
        "tells why."
    ),
    "encrypted": (
        "Warning: a client encrypts its connection, so that nothing of it can be captured. Have "
        "clients connect with sslmode=disable (and gssencmode=disable), on this machine or a "
        "network that is safe; where they have to encrypt, take a proxy (--listen) on the "
        "server's side of the encryption."
    ),
}
"""The same where packets are captured."""

_PLACE: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:]*):(?P<port>[0-9]{1,5})")
_FOLDER: Final = re.compile(r"(?P<host>/.*?)(?::(?P<port>[0-9]{1,5}))?")


class Listening(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A place where clients come in.

    Attributes:
        host: An address, or a folder for a socket; None for the loopback interface.
        port: The port.
    """

    host: str | None = None
    port: int


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be captured, and into what.

    Attributes:
        listen: Where clients come in; empty where packets are captured.
        packets: Where packets come from: an ``interface``, or a ``file``; None for a proxy.
        host: Of the server: a folder with its socket, or a name or address; of packets empty for
            any address.
        port: Of the server.
        output: The trace.
        mask: Whether literals, parameters and returned values are replaced.
        force: Whether a trace of that name is replaced.
        url: The way to ask the server who it is; None where only its place was given.
    """

    listen: list[Listening]
    packets: dict[str, str] | None = None
    host: str
    port: int
    output: Path
    mask: bool
    force: bool
    url: str | None

    def as_json(
        self, address: str | None, identifier: int | None, clients: Sequence[Client] = ()
    ) -> str:
        """Return it as the engine takes it (crates/capture/src/spec.rs).

        Args:
            address: Of the server's addresses the one that answered; None for a folder.
            identifier: The server's own number; None where it is not known.
            clients: Who is connected to it already, where packets are captured.
        """
        spec = {
            "listen": self.listen,
            "server": {"host": self.host, "port": self.port, "address": address},
            "output": str(self.output),
            "mask": self.mask,
        }
        if self.packets is not None:
            spec |= {"packets": self.packets, "known": clients}
        known = {} if identifier is None else {"system_identifier": identifier}
        return msgspec.json.encode(spec | known).decode()

    @property
    def is_of_file(self) -> bool:
        """Whether a file is read, and no server queried."""
        return self.packets is not None and "file" in self.packets


def require_one_way(places: tuple[str, ...], interface: str | None, pcap: Path | None) -> None:
    """Check that a capture is wanted in one way.

    Raises:
        UsageError: when it is in several.
    """
    given = {"--listen": bool(places), "--interface": bool(interface), "--pcap": bool(pcap)}
    named = [name for name, is_given in given.items() if is_given]
    if len(named) > 1:
        raise UsageError(
            seen=f"{' and '.join(named)} were given",
            cause="Statements come through a proxy, from an interface or from a file",
            next_step="Give one of them; what is captured twice is in the trace twice",
        )


def wanted_by_proxy(
    places: tuple[str, ...], server: str | None, output: Path, *, mask: bool, force: bool
) -> Wanted:
    """Return what a proxy is wanted for, as it was written on the command line.

    Raises:
        UsageError: when a place or the server's address makes no sense.
    """
    if not places or server is None:
        raise UsageError(
            seen=f"{'--to' if places else '--listen'} is missing",
            cause="A proxy has clients on one side and a server on the other",
            next_step="Give both, as in --listen :6432 --to postgresql://db1:5432/prod",
        )
    if len(places) > PLACES_MAX:
        raise UsageError(
            seen=f"{len(places)} places to listen at",
            cause=f"A proxy listens at {PLACES_MAX} at most",
            next_step="Name fewer",
        )
    listen = [_listen(place) for place in places]
    host, port, url = _server(server)
    return Wanted(
        listen=listen, host=host, port=port, output=output, mask=mask, force=force, url=url
    )


def rows_output(wanted: Wanted) -> Output:
    """Return where the rows of the captured database go, judged before anything is captured.

    Raises:
        RefusedError: when something else is there.
        UsageError: when nobody is there to type them, or they would be of no use.
    """
    if wanted.is_of_file:
        raise UsageError(
            seen="--rows is given with --pcap",
            cause="What the tables hold now is not what they held when the packets were written",
            next_step="Leave --rows out",
        )
    if wanted.url is None and wanted.packets is not None:
        raise UsageError(
            seen="--rows is given, but --to is a bare address",
            cause="An address does not say which database to read, and as whom",
            next_step="Write --to postgresql://USER@HOST:PORT/DATABASE",
        )
    if wanted.url is None:
        raise UsageError(
            seen="--rows is given, but --to names a folder",
            cause="A folder does not tell which database to read, and as whom",
            next_step=f"Write --to 'postgresql:///DATABASE?host={wanted.host}&port={wanted.port}'",
        )
    if wanted.mask:
        raise UsageError(
            seen="--rows is given with --mask",
            cause="A replay of stand-ins writes other values than the captured database holds",
            next_step="Leave one of them out",
        )
    place = Path(f"{wanted.output}{SUFFIX}")
    writable_path(place, force=wanted.force, kind=ROWS)
    return Output(path=place, force=wanted.force, kind=ROWS)


def wanted_packets(
    packets: dict[str, str], server: str | None, output: Path, *, mask: bool, force: bool
) -> Wanted:
    """Return what packets are wanted for, as it was written on the command line.

    Args:
        packets: An ``interface`` or a ``file``.
        server: Whose packets: a URL, ``HOST:PORT`` or ``:PORT``; None for the default port of
            any address.
        output: The trace.
        mask: Whether literals, parameters and returned values are replaced.
        force: Whether a trace of that name is replaced.

    Raises:
        UsageError: when the server's address makes no sense, or is a socket in a folder.
    """
    if found := _PLACE.fullmatch(server or f":{PORT_DEFAULT}"):
        host, port, url = found["host"].strip("[]"), int(found["port"]), None
    else:
        host, port, url = _server(server or "")
    if host.startswith("/"):
        raise UsageError(
            seen=f"The traffic of the socket in {host} is not sent in packets",
            cause="Clients reach the server by a socket of the file system, not over the network",
            next_step="Put a proxy in front of it: seatrial sql capture --listen /run/seatrial "
            f"--to {host}:{port} -o {output}; or have clients connect with host=127.0.0.1",
        )
    if port > PORT_MAX:
        raise UsageError(
            seen=f"There is no port {port}",
            cause=f"Ports go up to {PORT_MAX}",
            next_step="Name the server's, as `SHOW port` tells it",
        )
    return Wanted(
        listen=[],
        packets=packets,
        host=host,
        port=port,
        output=output,
        mask=mask,
        force=force,
        url=url,
    )


def _server(server: str) -> tuple[str, int, str | None]:
    """Return host and port of a server, and the way to ask it where that was given."""
    if found := _FOLDER.fullmatch(server):
        return found["host"], int(found["port"] or PORT_DEFAULT), None
    from seatrial.postgres.connection import parse_url  # noqa: PLC0415 - likewise

    (url,) = servers_of([server])
    address, _ = parse_url(url)
    return address.host, address.port, url


def _listen(place: str) -> Listening:
    found = _FOLDER.fullmatch(place) or _PLACE.fullmatch(place)
    if found is None or int(found["port"] or PORT_DEFAULT) > PORT_MAX:
        raise UsageError(
            seen=f"{place!r} is no place to listen at",
            cause="It is :PORT for this machine only, HOST:PORT, or a folder for a socket",
            next_step="Write it as --listen :6432, or --listen /run/seatrial:5432",
        )
    port = int(found["port"] or PORT_DEFAULT)
    host = found["host"].strip("[]")
    if not host:
        return Listening(port=port)
    if not host.startswith("/"):
        host = _address(host)
    return Listening(host=host, port=port)


def _address(host: str) -> str:
    """Return the address of a name of this machine."""
    if host == "localhost":
        return "127.0.0.1"
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        raise UsageError(
            seen=f"{host!r} is no address",
            cause="A name may stand for several addresses, and the proxy listens at those it is "
            "given",
            next_step="Name the address, as `ip -brief address` shows it, or leave it away for "
            "this machine only",
        ) from None


def capture_statements(wanted: Wanted, *, quiet: bool) -> Reading:
    """Capture until interrupted, or to the end of a file; return what came of it.

    Args:
        wanted: What is to be captured.
        quiet: Whether nothing is reported meanwhile but warnings.

    Raises:
        RefusedError: when something would be lost that is not a trace, or not meant.
        PartialResult: when the trace could not be written to its end.
        SeatrialError: when messages or statements were lost count of: a defect of ours.
        SpaceError: when the disk is full before anything was captured.
        TargetError: when the server cannot be reached.
        UsageError: when nobody can listen there, this user may not see packets, or the trace
            cannot be written there.
    """
    place = writable_trace_path(wanted.output, force=wanted.force)
    wanted = msgspec.structs.replace(wanted, output=place)
    if wanted.packets is None:
        address = _require_server(wanted)
        _warn(wanted)
        # Each connection takes two.
        allow_all_descriptors()
        spec = wanted.as_json(address, _identifier(wanted))
    elif wanted.is_of_file:
        spec = wanted.as_json(None, None)
    else:
        if wanted.host:
            _require_server(wanted)
        spec = wanted.as_json(None, _identifier(wanted), _clients(wanted))
    with _heeding_signals() as requested_to_end, keeping_owner(wanted.output):
        with native_errors():
            capture = _core.start_sql_capture(spec)
        if not quiet:
            click.echo(_begun(wanted, capture.places), err=True)
        warnings = _WARNINGS if wanted.packets is None else _PACKETS_WARNINGS
        _wait(capture, requested_to_end, warnings, quiet=quiet)
        try:
            with native_errors():
                result = capture.result()
        except SeatrialError as error:
            raise PartialResult(
                seen=error.seen, cause=error.cause, next_step=error.next_step
            ) from None
    return sql_reading.accounted(result)


def _begun(wanted: Wanted, places: Sequence[str]) -> str:
    at = f"{wanted.host}:{wanted.port}"
    if wanted.packets is None:
        return f"Listening at {', '.join(places)}; passing on to {at}. Ctrl-C ends it."
    if wanted.is_of_file:
        return f"Reading the packets in {wanted.packets['file']} with {at}."
    return f"Capturing the packets of {wanted.packets['interface']} with {at}. Ctrl-C ends it."


def exit_code(captured: Reading) -> int:
    """Return 0, or 4 where statements are missing: not kept, seen or followed, or encrypted."""
    lost = sum(captured.accounting.unreadable.values())
    if (seen := captured.capture) is not None:
        lost += seen.encrypted + seen.broken_off + seen.defects + seen.out_of_step
        if (packets := seen.packets) is not None:
            lost += packets.dropped + packets.gaps + packets.left_out + packets.crowded
            lost += packets.cut + packets.is_torn
    return EXIT_PARTIAL if lost else 0


def recover_capture(output: Path, *, force: bool, with_others: bool) -> None:
    """Make a trace of what a capture that was killed had written.

    Raises:
        RefusedError: when a file of the trace's name is there.
        UsageError: when there is none, or other options were given with it.
    """
    if with_others:
        raise UsageError(
            seen="--recover was given with other options",
            cause="It takes up what was captured before, and captures nothing",
            next_step=f"seatrial sql capture --recover -o {output}",
        )
    if not Path(f"{output}.part.end").exists():
        raise UsageError(
            seen=f"There is nothing to recover of {output}",
            cause="Its capture ended in order, or was killed within its first minute",
            next_step=f"See `ls -l {output}*`",
        )
    place = writable_trace_path(output, force=force)
    with native_errors(), keeping_owner(place):
        statements = _core.recover_trace(place)
    click.echo(f"{output} has {format_plural(statements, 'statement')} again.")
    click.echo(f"Next:  {program.called()} sql show {click.format_filename(output)}")


@contextlib.contextmanager
def _heeding_signals() -> Iterator[threading.Event]:
    """Have Ctrl-C, SIGTERM and SIGHUP ask for the end, however often they come.

    They never break off what completes the trace. What is ignored stays so, as by ``nohup``.
    """
    requested_to_end = threading.Event()
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, lambda *_: requested_to_end.set())
    try:
        with interrupts.stopping_with("Stopping: the trace is completed."):
            yield requested_to_end
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _require_server(wanted: Wanted) -> str | None:
    """Check that somebody listens there; return the address that answered, None for a folder.

    Raises:
        TargetError: when nobody does.
    """
    import socket  # noqa: PLC0415 - not for --help

    try:
        if wanted.host.startswith("/"):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(10)
                connection.connect(f"{wanted.host}/.s.PGSQL.{wanted.port}")
            return None
        with socket.create_connection((wanted.host, wanted.port), timeout=10) as connection:
            return str(connection.getpeername()[0])
    except OSError as error:
        raise TargetError(
            seen=f"The server at {wanted.host}:{wanted.port} cannot be reached: {error}",
            cause="It does not run, listens elsewhere, or a firewall is in between",
            next_step="Ask it with `pg_isready`, and give --to as it answers",
        ) from None


def _clients(wanted: Wanted) -> list[Client]:
    """Return who is connected already, which their packets do not tell."""
    if wanted.url is None:
        return []
    from seatrial.postgres.connection import parse_url  # noqa: PLC0415 - likewise
    from seatrial.postgres.remote import connected_clients  # noqa: PLC0415 - needs libpq

    address, _ = parse_url(wanted.url)
    with contextlib.suppress(SeatrialError):
        return connected_clients(address)
    return []


def _identifier(wanted: Wanted) -> int | None:
    """Return the server's own number; None where nobody tells it us."""
    if wanted.url is None and wanted.packets is not None:
        click.echo(
            "An address alone does not tell as whom to ask the server for its system identifier, "
            "so a replay could be sent to it by mistake, nor who is connected already: --to "
            f"'postgresql://USER@{wanted.host or '127.0.0.1'}:{wanted.port}/DATABASE' does.",
            err=True,
        )
        return None
    if wanted.url is None:
        click.echo(
            "A folder does not tell as whom to ask the server for its system identifier, so a "
            "replay could be sent to it by mistake: --to "
            f"'postgresql:///DATABASE?host={wanted.host}&port={wanted.port}' does.",
            err=True,
        )
        return None
    from seatrial.postgres.connection import parse_url  # noqa: PLC0415 - needs libpq

    address, _ = parse_url(wanted.url)
    reported = None
    with contextlib.suppress(SeatrialError):
        reported = requested_system_identifier(address)
    if reported is None:
        click.echo(
            "The server did not tell us its system identifier, so a replay could be sent to it by "
            "mistake: the user and database of --to are only used to ask for it.",
            err=True,
        )
    return None if reported is None else int(reported)


def _warn(wanted: Wanted) -> None:
    hosts = [place.host for place in wanted.listen]
    addresses = [host for host in hosts if host and not host.startswith("/")]
    for host in addresses:
        if not ipaddress.ip_address(host).is_loopback:
            click.echo(
                f"Warning: {host} can be reached by other machines, without encryption. The server "
                "sees all of them come from this machine: check that its pg_hba.conf does not let "
                "this machine in more easily than them.",
                err=True,
            )
    if wanted.host.startswith("/") and len(addresses) + hosts.count(None) > 0:
        click.echo(
            "Warning: clients come in by TCP, and the server sees all of them come by its socket, "
            "as this user: where its pg_hba.conf says trust or peer there, all of them are let in.",
            err=True,
        )


def _wait(
    capture: _core.SqlCapture,
    requested_to_end: threading.Event,
    warnings: Mapping[str, str],
    *,
    quiet: bool,
) -> None:
    """Wait until it ends; tell how far it is, and at once where something is wrong."""
    warnings = dict(warnings)
    on_terminal = sys.stderr.isatty() and not quiet
    while not capture.wait(POLL_S):
        if requested_to_end.is_set():
            capture.stop()
            continue
        # A terminal may be gone a moment before its signal comes.
        with contextlib.suppress(OSError):
            for name in [name for name in warnings if getattr(capture, name)]:
                click.echo(f"\n{warnings.pop(name)}", err=True)
            if on_terminal:
                _report_progress(capture)


def _report_progress(capture: _core.SqlCapture) -> None:
    statements, left_out, open_ = capture.progress()
    lost = f", {format_plural(left_out, 'statement')} left out" if left_out else ""
    reported = f"{format_plural(statements, 'statement')}, {open_} connections open{lost}"
    click.echo(f"\r{reported:<78}", err=True, nl=False)
