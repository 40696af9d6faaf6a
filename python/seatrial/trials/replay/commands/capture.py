"""``seatrial sql capture``: a trace of the traffic of clients and a server, by proxy or packets."""

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
from seatrial.postgres.remote import server_system_identifier
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
  seatrial sql capture --recover -o prod.trace           the trace of a capture that was killed

\b
By a proxy (--listen): clients connect to it instead of the server, with sslmode=disable. Encrypted
connections are passed on and not captured, which is reported at once. Ctrl-C, SIGTERM or SIGHUP
ends it: the connections of all clients are closed, their open transactions are rolled back, and
the trace is completed. Bytes are passed on unchanged; the server sees the proxy's address as its
client's.

\b
From packets (--interface, on the server's machine): there is no proxy, no client is changed, and it
uses less CPU time. It needs root (CAP_NET_RAW). Encrypted connections and Unix sockets cannot be
captured: use the proxy for these. Existing sessions are captured from the first moment at which
they have no open transaction. Packets that the kernel dropped are counted, and gaps in a session
are reported. --pcap reads a file of `tcpdump -s 0 -w FILE tcp port 5432`.

\b
Addresses for clients:
  --listen :PORT        the loopback interface: this machine only
  --listen HOST:PORT    one address of this machine; others can reach it, with a warning
  --listen DIR[:PORT]   a socket in a folder, .s.PGSQL.PORT, for this user only

\b
Packets to capture:
  --interface lo        clients on the server's machine
  --interface eth0      clients of that network; any for all interfaces
  --to :PORT            any server at this port; --to HOST:PORT for one server

\b
Exit codes: 0 captured; 2 usage; 4 statements are missing: the trace could not be written to its
end or not fast enough, packets were missing, or connections were encrypted or could not be
followed; 5 refused, as a file would be lost; 6 the server cannot be reached; 8 too little space to
start.
"""


@click.command("capture", epilog=EPILOG, short_help="Capture a trace by proxy or packets.")
@click.option(
    "--listen",
    "addresses",
    multiple=True,
    metavar="[HOST]:PORT|DIR",
    help="Address for clients; may be repeated.",
)
@click.option(
    "--interface",
    metavar="NAME|any",
    help="Capture the packets of an interface, such as lo, instead of a proxy; as root.",
)
@click.option(
    "--pcap",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Read a packet file of tcpdump or Wireshark, instead of a proxy.",
)
@click.option(
    "--to", "--server", "server", metavar="URL|DIR[:PORT]|[HOST]:PORT", help="The server."
)
@trace_output_option
@click.option(
    "--mask",
    is_flag=True,
    help="Mask literals, parameters and returned values, preserving type and length.",
)
@click.option(
    "--rows",
    "with_rows",
    is_flag=True,
    help="At the end, record the rows of all tables in TRACE.rows, to compare replays with.",
)
@click.option("--force", is_flag=True, help="Replace the trace if it exists.")
@click.option("--recover", is_flag=True, help="Complete the trace of a capture that was killed.")
@json_option
def capture(
    *,
    addresses: tuple[str, ...],
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
    """Capture the traffic of clients and a server in a trace, as a proxy or from packets.

    Unlike a log, the trace has all parameters, the row count of each statement, and values of
    RETURNING and sequences, so that a replay maps generated ids exactly. It contains the data that
    clients send and receive, and only its owner may read it.
    """
    if recover:
        has_others = bool(addresses or interface or pcap or server or mask or with_rows)
        recover_capture(output, force=force, with_others=has_others)
        return 0
    require_one_source(addresses, interface, pcap)
    if interface is not None or pcap is not None:
        packets = {"file": str(pcap)} if interface is None else {"interface": interface}
        request = packets_request(packets, server, output, mask=mask, force=force)
    else:
        request = proxy_request(addresses, server, output, mask=mask, force=force)
    rows_file = rows_output(request) if with_rows else None
    captured = capture_statements(request, quiet=as_json)
    if as_json:
        from seatrial.trials.replay.documents import reading_document  # noqa: PLC0415 - only here

        click.echo(reading_document(captured), nl=False)
    else:
        click.echo(capture_text(captured))
    code = exit_code(captured)
    if rows_file is None:
        return code
    from seatrial.trials.replay.commands.rows import write_rows  # noqa: PLC0415 - only here

    assert request.url is not None  # noqa: S101 - checked by rows_output
    return max(code, write_rows(request.url, rows_file, quiet=as_json))


PORT_DEFAULT: Final = 5432
PORT_MAX: Final = 65_535
POLL_S: Final = 0.2
LISTEN_ADDRESSES_MAX: Final = 16

_WARNINGS: Final = {
    "has_failed": (
        "The trace cannot be written any more. Bytes are still passed on; nothing more is "
        "captured. Ctrl-C ends it and shows why."
    ),
    "encrypted": (
        "Warning: a client encrypts its connection, which therefore cannot be captured. Have "
        "clients connect to the proxy with sslmode=disable (and gssencmode=disable)."
    ),
}
"""Warnings that are printed once, by the property of the capture that triggers them."""
_PACKETS_WARNINGS: Final = {
    "has_failed": (
        "The trace can no longer be written, and capturing has stopped. Ctrl-C ends it and "
        "shows why."
    ),
    "encrypted": (
        "Warning: a client encrypts its connection, which therefore cannot be captured. Have "
        "clients connect with sslmode=disable (and gssencmode=disable), on this machine or a "
        "safe network; if they must encrypt, use a proxy (--listen) on the "
        "server's side of the encryption."
    ),
}
"""The same for a capture of packets."""

_HOST_AND_PORT: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:]*):(?P<port>[0-9]{1,5})")
_SOCKET_FOLDER: Final = re.compile(r"(?P<host>/.*?)(?::(?P<port>[0-9]{1,5}))?")


class ListenAddress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An address at which a proxy listens.

    Attributes:
        host: An address, or a folder for a socket; None for the loopback interface.
        port: The port.
    """

    host: str | None = None
    port: int


class CaptureRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A planned capture.

    Attributes:
        listen: Addresses for clients; empty for packets.
        packets: The source of packets: an ``interface``, or a ``file``; None for a proxy.
        host: The server's host name or address, or the folder of its socket; for packets, empty for
            any address.
        port: The server's port.
        output: The trace.
        mask: Whether literals, parameters and returned values are replaced.
        force: Whether a trace of that name is replaced.
        url: URL of the server, to query its identifier; None if only its address was given.
    """

    listen: list[ListenAddress]
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
        """Return it for the engine (crates/capture/src/spec.rs).

        Args:
            address: The address of the server that answered; None for a folder.
            identifier: The server's system identifier; None if unknown.
            clients: Existing connections, for a capture of packets.
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
    def reads_file(self) -> bool:
        """Whether a file is read, and no server queried."""
        return self.packets is not None and "file" in self.packets


def require_one_source(
    addresses: tuple[str, ...], interface: str | None, pcap: Path | None
) -> None:
    """Check that a capture has one source.

    Raises:
        UsageError: when it has several.
    """
    given = {"--listen": bool(addresses), "--interface": bool(interface), "--pcap": bool(pcap)}
    named = [name for name, is_given in given.items() if is_given]
    if len(named) > 1:
        raise UsageError(
            seen=f"{' and '.join(named)} were given",
            cause="Statements come through a proxy, from an interface or from a file",
            next_step="Give one of them; what is captured twice is in the trace twice",
        )


def proxy_request(
    addresses: tuple[str, ...], server: str | None, output: Path, *, mask: bool, force: bool
) -> CaptureRequest:
    """Return the capture of a proxy, as described by options.

    Raises:
        UsageError: when an address is missing or invalid.
    """
    if not addresses or server is None:
        raise UsageError(
            seen=f"{'--to' if addresses else '--listen'} is missing",
            cause="A proxy has clients on one side and a server on the other",
            next_step="Give both, as in --listen :6432 --to postgresql://db1:5432/prod",
        )
    if len(addresses) > LISTEN_ADDRESSES_MAX:
        raise UsageError(
            seen=f"{len(addresses)} addresses to listen on",
            cause=f"A proxy listens on at most {LISTEN_ADDRESSES_MAX}",
            next_step="Give fewer addresses",
        )
    listen = [_listen_address(text) for text in addresses]
    host, port, url = _server(server)
    return CaptureRequest(
        listen=listen, host=host, port=port, output=output, mask=mask, force=force, url=url
    )


def rows_output(request: CaptureRequest) -> Output:
    """Return the file for the rows of the captured database, checked before the capture.

    Raises:
        RefusedError: when another file has that name.
        UsageError: when the database is not known, or the rows could not be compared.
    """
    if request.reads_file:
        raise UsageError(
            seen="--rows is given with --pcap",
            cause="The tables have changed since the packets were written",
            next_step="Leave out --rows",
        )
    if request.url is None and request.packets is not None:
        raise UsageError(
            seen="--rows is given, but --to is a bare address",
            cause="The database and user to read it as are unknown",
            next_step="Write --to postgresql://USER@HOST:PORT/DATABASE",
        )
    if request.url is None:
        raise UsageError(
            seen="--rows is given, but --to names a folder",
            cause="The database and user to read it as are unknown",
            next_step="Write --to "
            f"'postgresql:///DATABASE?host={request.host}&port={request.port}'",
        )
    if request.mask:
        raise UsageError(
            seen="--rows is given with --mask",
            cause="A replay of masked values writes other values than the captured database has",
            next_step="Leave one of them out",
        )
    path = Path(f"{request.output}{SUFFIX}")
    writable_path(path, force=request.force, kind=ROWS)
    return Output(path=path, force=request.force, kind=ROWS)


def packets_request(
    packets: dict[str, str], server: str | None, output: Path, *, mask: bool, force: bool
) -> CaptureRequest:
    """Return the capture of packets, as described by options.

    Args:
        packets: An ``interface`` or a ``file``.
        server: Packets to capture: a URL, ``HOST:PORT`` or ``:PORT``; None for the default port of
            any address.
        output: The trace.
        mask: Whether literals, parameters and returned values are replaced.
        force: Whether a trace of that name is replaced.

    Raises:
        UsageError: when the server's address is invalid, or is a Unix socket.
    """
    if found := _HOST_AND_PORT.fullmatch(server or f":{PORT_DEFAULT}"):
        host, port, url = found["host"].strip("[]"), int(found["port"]), None
    else:
        host, port, url = _server(server or "")
    if host.startswith("/"):
        raise UsageError(
            seen=f"The traffic of the Unix socket in {host} is not sent in packets",
            cause="Clients reach the server by a socket of the file system, not over the network",
            next_step="Put a proxy in front of it: seatrial sql capture --listen /run/seatrial "
            f"--to {host}:{port} -o {output}; or have clients connect with host=127.0.0.1",
        )
    if port > PORT_MAX:
        raise UsageError(
            seen=f"There is no port {port}",
            cause=f"Ports go up to {PORT_MAX}",
            next_step="Use the server's port; `SHOW port` in psql shows it",
        )
    return CaptureRequest(
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
    """Return host, port and URL of a server; no URL if a folder was given."""
    if found := _SOCKET_FOLDER.fullmatch(server):
        return found["host"], int(found["port"] or PORT_DEFAULT), None
    from seatrial.postgres.connection import parse_url  # noqa: PLC0415 - likewise

    (url,) = servers_of([server])
    address, _ = parse_url(url)
    return address.host, address.port, url


def _listen_address(text: str) -> ListenAddress:
    found = _SOCKET_FOLDER.fullmatch(text) or _HOST_AND_PORT.fullmatch(text)
    if found is None or int(found["port"] or PORT_DEFAULT) > PORT_MAX:
        raise UsageError(
            seen=f"{text!r} is not an address to listen on",
            cause="Expected :PORT for this machine only, HOST:PORT, or a folder for a socket",
            next_step="For example --listen :6432, or --listen /run/seatrial:5432",
        )
    port = int(found["port"] or PORT_DEFAULT)
    host = found["host"].strip("[]")
    if not host:
        return ListenAddress(port=port)
    if not host.startswith("/"):
        host = _ip_address(host)
    return ListenAddress(host=host, port=port)


def _ip_address(host: str) -> str:
    """Return a valid IP address."""
    if host == "localhost":
        return "127.0.0.1"
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        raise UsageError(
            seen=f"{host!r} is not an IP address",
            cause="A name may resolve to several addresses",
            next_step="Use an address; `ip -brief address` lists them. Leave out the host for "
            "this machine only",
        ) from None


def capture_statements(request: CaptureRequest, *, quiet: bool) -> Reading:
    """Capture until interrupted, or to the end of a file; return the result.

    Args:
        request: The capture.
        quiet: Whether only warnings are printed meanwhile.

    Raises:
        RefusedError: when a file would be overwritten that is not a trace, or without --force.
        PartialResult: when the trace is incomplete.
        SeatrialError: when the accounting does not add up: a bug in Seatrial.
        SpaceError: when the disk is full at the start.
        TargetError: when the server cannot be reached.
        UsageError: when the address cannot be used, packets may not be captured, or the trace
            cannot be written.
    """
    path = writable_trace_path(request.output, force=request.force)
    request = msgspec.structs.replace(request, output=path)
    if request.packets is None:
        address = _require_server(request)
        _warn(request)
        # Each connection takes two.
        allow_all_descriptors()
        spec = request.as_json(address, _system_identifier(request))
    elif request.reads_file:
        spec = request.as_json(None, None)
    else:
        if request.host:
            _require_server(request)
        spec = request.as_json(None, _system_identifier(request), _connected_clients(request))
    with _stopping_on_signals() as stop_requested, keeping_owner(request.output):
        with native_errors():
            capture = _core.start_sql_capture(spec)
        if not quiet:
            click.echo(_start_message(request, capture.places), err=True)
        warnings = _WARNINGS if request.packets is None else _PACKETS_WARNINGS
        _wait(capture, stop_requested, warnings, quiet=quiet)
        try:
            with native_errors():
                result = capture.result()
        except SeatrialError as error:
            raise PartialResult(
                seen=error.seen, cause=error.cause, next_step=error.next_step
            ) from None
    return sql_reading.checked_reading(result)


def _start_message(request: CaptureRequest, addresses: Sequence[str]) -> str:
    at = f"{request.host}:{request.port}"
    if request.packets is None:
        return f"Listening on {', '.join(addresses)}; passing on to {at}. Ctrl-C ends it."
    if request.reads_file:
        return f"Reading the packets in {request.packets['file']} with {at}."
    return f"Capturing the packets of {request.packets['interface']} with {at}. Ctrl-C ends it."


def exit_code(captured: Reading) -> int:
    """Return 0, or 4 if statements are missing: lost, not captured or encrypted."""
    lost = sum(captured.accounting.unreadable.values())
    if (counts := captured.capture) is not None:
        lost += counts.encrypted + counts.broken_off + counts.defects + counts.out_of_step
        if (packets := counts.packets) is not None:
            lost += packets.dropped + packets.gaps + packets.left_out + packets.crowded
            lost += packets.cut + packets.is_torn
    return EXIT_PARTIAL if lost else 0


def recover_capture(output: Path, *, force: bool, with_others: bool) -> None:
    """Complete the trace of a capture that was killed.

    Raises:
        RefusedError: when a file of the trace's name exists.
        UsageError: when there is no such capture, or other options are given.
    """
    if with_others:
        raise UsageError(
            seen="--recover was given with other options",
            cause="It completes an earlier capture, and captures nothing",
            next_step=f"seatrial sql capture --recover -o {output}",
        )
    if not Path(f"{output}.part.end").exists():
        raise UsageError(
            seen=f"There is nothing to recover of {output}",
            cause="Its capture ended normally, or was killed within its first minute",
            next_step=f"See `ls -l {output}*`",
        )
    path = writable_trace_path(output, force=force)
    with native_errors(), keeping_owner(path):
        statements = _core.recover_trace(path)
    click.echo(f"{output} has {format_plural(statements, 'statement')} again.")
    click.echo(f"Next:  {program.called()} sql show {click.format_filename(output)}")


@contextlib.contextmanager
def _stopping_on_signals() -> Iterator[threading.Event]:
    """Let Ctrl-C, SIGTERM and SIGHUP request the end, even when repeated.

    They never interrupt the completion of the trace. Ignored signals stay ignored (``nohup``).
    """
    stop_requested = threading.Event()
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, lambda *_: stop_requested.set())
    try:
        with interrupts.stopping_with("Stopping: the trace is completed."):
            yield stop_requested
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _require_server(request: CaptureRequest) -> str | None:
    """Check that a server listens; return the address that answered, None for a folder.

    Raises:
        TargetError: when none does.
    """
    import socket  # noqa: PLC0415 - not for --help

    try:
        if request.host.startswith("/"):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(10)
                connection.connect(f"{request.host}/.s.PGSQL.{request.port}")
            return None
        with socket.create_connection((request.host, request.port), timeout=10) as connection:
            return str(connection.getpeername()[0])
    except OSError as error:
        raise TargetError(
            seen=f"The server at {request.host}:{request.port} cannot be reached: {error}",
            cause="It does not run, listens elsewhere, or a firewall is in between",
            next_step="Check it with `pg_isready`, then correct --to",
        ) from None


def _connected_clients(request: CaptureRequest) -> list[Client]:
    """Return existing connections, whose users and databases later packets do not contain."""
    if request.url is None:
        return []
    from seatrial.postgres.connection import parse_url  # noqa: PLC0415 - likewise
    from seatrial.postgres.remote import connected_clients  # noqa: PLC0415 - needs libpq

    address, _ = parse_url(request.url)
    with contextlib.suppress(SeatrialError):
        return connected_clients(address)
    return []


def _system_identifier(request: CaptureRequest) -> int | None:
    """Return the server's system identifier; None if it cannot be queried."""
    if request.url is None and request.packets is not None:
        click.echo(
            "The user to query the system identifier as is unknown, so a replay could be sent to "
            "this server by mistake, and existing connections are unknown. Use --to "
            f"'postgresql://USER@{request.host or '127.0.0.1'}:{request.port}/DATABASE'.",
            err=True,
        )
        return None
    if request.url is None:
        click.echo(
            "The user to query the system identifier as is unknown, so a replay could be sent to "
            "this server by mistake. Use --to "
            f"'postgresql:///DATABASE?host={request.host}&port={request.port}'.",
            err=True,
        )
        return None
    from seatrial.postgres.connection import parse_url  # noqa: PLC0415 - needs libpq

    address, _ = parse_url(request.url)
    identifier = None
    with contextlib.suppress(SeatrialError):
        identifier = server_system_identifier(address)
    if identifier is None:
        click.echo(
            "The server did not return its system identifier, so a replay could be sent to it by "
            "mistake: the user and database of --to are only used to query it.",
            err=True,
        )
    return None if identifier is None else int(identifier)


def _warn(request: CaptureRequest) -> None:
    hosts = [address.host for address in request.listen]
    addresses = [host for host in hosts if host and not host.startswith("/")]
    for host in addresses:
        if not ipaddress.ip_address(host).is_loopback:
            click.echo(
                f"Warning: {host} can be reached by other machines, without encryption. The server "
                "sees this machine as their address: check that its pg_hba.conf does not trust "
                "this machine more than them.",
                err=True,
            )
    if request.host.startswith("/") and len(addresses) + hosts.count(None) > 0:
        click.echo(
            "Warning: clients connect by TCP, and the server sees all of them on its Unix socket, "
            "as this user: with trust or peer in its pg_hba.conf, all of them are accepted.",
            err=True,
        )


def _wait(
    capture: _core.SqlCapture,
    stop_requested: threading.Event,
    warnings: Mapping[str, str],
    *,
    quiet: bool,
) -> None:
    """Wait until the end; print progress, and warnings at once."""
    warnings = dict(warnings)
    on_terminal = sys.stderr.isatty() and not quiet
    while not capture.wait(POLL_S):
        if stop_requested.is_set():
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
    progress = f"{format_plural(statements, 'statement')}, {open_} connections open{lost}"
    click.echo(f"\r{progress:<78}", err=True, nl=False)
