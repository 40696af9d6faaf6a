"""A capture: what is refused before, what is told meanwhile, what ends it."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from seatrial import _core, interrupts, program
from seatrial.analysis.wording import format_plural
from seatrial.cli import sql_reading
from seatrial.cli.files import ROWS, Output, keeping_owner, place_to_write, trace_to_write
from seatrial.cli.sql_errors import native_errors
from seatrial.cli.sql_model import Reading
from seatrial.errors import PartialResult, SeatrialError, TargetError, UsageError
from seatrial.measure.descriptors import allow_all_descriptors
from seatrial.targets.postgres.row_file import SUFFIX
from seatrial.targets.postgres.system_identifier import asked_system_identifier

EXIT_PARTIAL: Final = 4
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
"""What is told once, as soon as it is seen, by the property that tells it."""

_PLACE: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:]*):(?P<port>[0-9]{1,5})")
_FOLDER: Final = re.compile(r"(?P<host>/.*?)(?::(?P<port>[0-9]{1,5}))?")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be captured, and into what.

    Attributes:
        listen: Where clients come in: ``host`` (absent for the loopback interface) and ``port``.
        host: Of the server: a folder with its socket, or a name or address.
        port: Of the server.
        output: The trace.
        mask: Whether literals, parameters and returned values are replaced.
        force: Whether a trace of that name is replaced.
        url: The way to ask the server who it is; None where only its place was given.
    """

    listen: list[dict[str, Any]]
    host: str
    port: int
    output: Path
    mask: bool
    force: bool
    url: str | None

    def as_json(self, address: str | None, identifier: int | None) -> str:
        """Return it as the proxy takes it (crates/replay/src/capture/spec.rs).

        Args:
            address: Of the server's addresses the one that answered; None for a folder.
            identifier: The server's own number; None where it is not known.
        """
        spec = {
            "listen": self.listen,
            "server": {"host": self.host, "port": self.port, "address": address},
            "output": str(self.output),
            "mask": self.mask,
        }
        known = {} if identifier is None else {"system_identifier": identifier}
        return msgspec.json.encode(spec | known).decode()


def wanted(
    places: tuple[str, ...], server: str | None, output: Path, *, mask: bool, force: bool
) -> Wanted:
    """Return what is wanted, as it was written on the command line.

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
    if found := _FOLDER.fullmatch(server):
        host, port, url = found["host"], int(found["port"] or PORT_DEFAULT), None
    else:
        from seatrial.cli.server_urls import servers_of  # noqa: PLC0415 - needs libpq
        from seatrial.targets.postgres.connection import parse_url  # noqa: PLC0415 - likewise

        (url,) = servers_of([server])
        address, _ = parse_url(url)
        host, port = address.host, address.port
    return Wanted(
        listen=listen, host=host, port=port, output=output, mask=mask, force=force, url=url
    )


def rows_output(wanted: Wanted) -> Output:
    """Return where the rows of the captured database go, judged before anything is captured.

    Raises:
        RefusedError: when something else is there.
        UsageError: when nobody can be asked for them, or they would be of no use.
    """
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
    place_to_write(place, force=wanted.force, kind=ROWS)
    return Output(place=place, force=wanted.force, kind=ROWS)


def _listen(place: str) -> dict[str, Any]:
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
        return {"port": port}
    if not host.startswith("/"):
        host = _address(host)
    return {"host": host, "port": port}


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
            "told",
            next_step="Name the address, as `ip -brief address` shows it, or leave it away for "
            "this machine only",
        ) from None


def capture_statements(wanted: Wanted, *, quiet: bool) -> Reading:
    """Pass on and capture until interrupted; return what came of it.

    Args:
        wanted: What is to be captured.
        quiet: Whether nothing is told meanwhile but warnings.

    Raises:
        RefusedError: when something would be lost that is not a trace, or not meant.
        PartialResult: when the trace could not be written to its end.
        SeatrialError: when messages or statements were lost count of: a defect of ours.
        SpaceError: when the disk is full before anything was captured.
        TargetError: when the server cannot be reached.
        UsageError: when nobody can listen there, or the trace cannot be written there.
    """
    place = trace_to_write(wanted.output, force=wanted.force)
    wanted = msgspec.structs.replace(wanted, output=place)
    address = _require_server(wanted)
    _warn(wanted)
    # Each connection takes two.
    allow_all_descriptors()
    spec = wanted.as_json(address, _identifier(wanted))
    with _heeding_signals() as asked_to_end, keeping_owner(wanted.output):
        with native_errors():
            capture = _core.start_sql_capture(spec)
        if not quiet:
            click.echo(
                f"Listening at {', '.join(capture.places)}; passing on to "
                f"{wanted.host}:{wanted.port}. Ctrl-C ends it.",
                err=True,
            )
        _wait(capture, asked_to_end, quiet=quiet)
        try:
            with native_errors():
                result = capture.result()
        except SeatrialError as error:
            raise PartialResult(
                seen=error.seen, cause=error.cause, next_step=error.next_step
            ) from None
    return sql_reading.accounted(result)


def exit_code(captured: Reading) -> int:
    """Return 0, or 4 where statements are missing: not kept, not followed, or encrypted."""
    lost = sum(captured.accounting.unreadable.values())
    if (seen := captured.capture) is not None:
        lost += seen.encrypted + seen.broken_off + seen.defects + seen.out_of_step
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
    place = trace_to_write(output, force=force)
    with native_errors(), keeping_owner(place):
        statements = _core.recover_trace(place)
    click.echo(f"{output} has {format_plural(statements, 'statement')} again.")
    click.echo(f"Next:  {program.called()} sql show {click.format_filename(output)}")


@contextlib.contextmanager
def _heeding_signals() -> Iterator[threading.Event]:
    """Have Ctrl-C, SIGTERM and SIGHUP ask for the end, however often they come.

    They never break off what completes the trace. What is ignored stays so, as by ``nohup``.
    """
    asked_to_end = threading.Event()
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, lambda *_: asked_to_end.set())
    try:
        with interrupts.stopping_with("Stopping: the trace is completed."):
            yield asked_to_end
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


def _identifier(wanted: Wanted) -> int | None:
    """Return the server's own number; None where nobody tells it us."""
    if wanted.url is None:
        click.echo(
            "A folder does not tell as whom to ask the server for its system identifier, so a "
            "replay could be sent to it by mistake: --to "
            f"'postgresql:///DATABASE?host={wanted.host}&port={wanted.port}' does.",
            err=True,
        )
        return None
    from seatrial.targets.postgres.connection import parse_url  # noqa: PLC0415 - needs libpq

    address, _ = parse_url(wanted.url)
    told = None
    with contextlib.suppress(SeatrialError):
        told = asked_system_identifier(address)
    if told is None:
        click.echo(
            "The server did not tell us its system identifier, so a replay could be sent to it by "
            "mistake: the user and database of --to are only used to ask for it.",
            err=True,
        )
    return None if told is None else int(told)


def _warn(wanted: Wanted) -> None:
    hosts = [place.get("host") for place in wanted.listen]
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
            "as this user: where its pg_hba.conf says trust or peer there, any of them is let in.",
            err=True,
        )


def _wait(capture: _core.SqlCapture, asked_to_end: threading.Event, *, quiet: bool) -> None:
    """Wait until it ends; tell how far it is, and at once where something is wrong."""
    warnings = dict(_WARNINGS)
    on_terminal = sys.stderr.isatty() and not quiet
    while not capture.wait(POLL_S):
        if asked_to_end.is_set():
            capture.stop()
            continue
        # A terminal may be gone a moment before its signal comes.
        with contextlib.suppress(OSError):
            for name in [name for name in warnings if getattr(capture, name)]:
                click.echo(f"\n{warnings.pop(name)}", err=True)
            if on_terminal:
                _tell_progress(capture)


def _tell_progress(capture: _core.SqlCapture) -> None:
    statements, left_out, open_ = capture.progress()
    lost = f", {format_plural(left_out, 'statement')} left out" if left_out else ""
    told = f"{format_plural(statements, 'statement')}, {open_} connections open{lost}"
    click.echo(f"\r{told:<78}", err=True, nl=False)
