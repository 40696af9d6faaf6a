"""Files that a command writes for its user: what may be replaced, and how it is replaced.

Every option that names such a file is made by :func:`output_option` or judged by
:func:`writable_path`; ``tests/cli/test_outputs.py`` lists them all.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TextIO

import click
import msgspec

from seatrial.descriptor import closing
from seatrial.errors import RefusedError, SeatrialError, SpaceError, UsageError

STANDARD_OUTPUT: Final = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
FORCE_NAME: Final = "force"
FORCE: Final = "seatrial.cli.files.force"
"""Where the context of click keeps whether --force was given."""
PARQUET_MAGIC: Final = b"PAR1"
_LINE_CHARACTERS_MAX: Final = 4096
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of file, and what of it may be replaced.

    Attributes:
        name: What it is called in messages.
        is_own: Detects from the content whether a file is of this kind; raises OSError.
        can_be_remade: Whether its own may be replaced unasked, as it can be made again.
        needs_own: Whether even ``--force`` replaces its own only.
        is_private: Whether a new one is for its owner alone.
    """

    name: str
    is_own: Callable[[Path], bool]
    can_be_remade: bool = True
    needs_own: bool = False
    is_private: bool = False


def _is_page_or_export(path: Path) -> bool:
    from seatrial.report.document import is_own  # noqa: PLC0415 - only where a file exists

    return is_own(path)


def _is_parquet_or_empty(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(PARQUET_MAGIC)) in (PARQUET_MAGIC, b"")


def _is_snapshot(path: Path) -> bool:
    from seatrial.statement_counters import TAKEN  # noqa: PLC0415 - only where a file exists

    with path.open(encoding="utf-8", errors="replace") as file:
        return file.readline(_LINE_CHARACTERS_MAX).rstrip("\n").endswith(f",{TAKEN}")


def _is_rows(path: Path) -> bool:
    from seatrial.postgres.row_content import is_content  # noqa: PLC0415 - likewise

    return is_content(path)


def _is_own_table(path: Path) -> bool:
    from seatrial.report.exports.parquet.files import is_table  # noqa: PLC0415 - likewise

    return is_table(path)


def is_parquet(path: Path) -> bool:
    """Return whether a file is Parquet, as traces and recordings are, whole or not."""
    try:
        return path.is_file() and path.stat().st_size > 0 and _is_parquet_or_empty(path)
    except OSError:
        return False


TRACE: Final = Kind(name="trace", is_own=_is_parquet_or_empty, can_be_remade=False, needs_own=True)
RECORDING: Final = Kind(
    name="recording", is_own=_is_parquet_or_empty, can_be_remade=False, needs_own=True
)
SNAPSHOT: Final = Kind(
    name="snapshot of pg_stat_statements", is_own=_is_snapshot, can_be_remade=False
)
ROWS: Final = Kind(
    name="file of a database's rows", is_own=_is_rows, can_be_remade=False, is_private=True
)
PARQUET: Final = Kind(name="table of Seatrial", is_own=_is_own_table)
REMADE: Final = Kind(name="report or export of Seatrial", is_own=_is_page_or_export)


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """Where a user wants a file.

    Attributes:
        path: The file; None where none was named.
        force: Whether any ordinary file is replaced.
        stream: Standard output, where that was named.
        kind: What is written.
    """

    path: Path | None = None
    force: bool = False
    stream: TextIO | None = None
    kind: Kind = REMADE

    @property
    def is_named(self) -> bool:
        """Whether the user named a file, or standard output."""
        return self.path is not None

    def or_at(self, default: Path) -> Output:
        """Return this, or where none was named the same at a default path."""
        return self if self.is_named else msgspec.structs.replace(self, path=default)

    def write(self, content: str | bytes, *, otherwise: str) -> None:
        """Write a file as a whole or not at all; ``otherwise`` is the command for elsewhere.

        Raises:
            RefusedError: when something is there that must not be replaced.
            SpaceError: when there is no space for it.
            UsageError: when it cannot be written there.
        """
        if self.stream is not None:
            click.echo(content, file=self.stream, nl=False)
            return
        assert self.path is not None  # noqa: S101 - a defect of ours, not of a user
        path = writable_path(self.path, force=self.force, kind=self.kind)
        try:
            data = content.encode() if isinstance(content, str) else content
            _replace(path, data, mode=0o600 if self.kind.is_private else 0o666)
        except OSError as error:
            raise failed(self.path, error, otherwise) from None


FolderIf = Callable[[Mapping[str, object]], bool]
"""Says by the values of other options whether an output is a directory."""


class OutputPath(click.Path):
    """The type of every option that names a file to write."""

    def __init__(
        self, kind: Kind, *, is_all: bool = False, folder_if: FolderIf | None = None
    ) -> None:
        super().__init__(path_type=Path)
        self.kind = kind
        self.is_all = is_all
        self.folder_if = folder_if


def output_option(
    *names: str,
    about: str,
    kind: Kind = REMADE,
    is_all: bool = False,
    folder_if: FolderIf | None = None,
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that adds an option for a file to write, and ``--force``.

    The command gets an :class:`Output`, judged before anything else is done. Where standard output
    is named, everything else that the command prints goes to standard error.

    Args:
        names: Names of the option.
        about: Its help.
        kind: What is written.
        is_all: Whether the command prints nothing else.
        folder_if: Says by the values of eager options whether this one names a directory for
            several files, each of which the command judges as it writes it; None for never.
    """

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        options = getattr(function, "__click_params__", [])
        if not any(option.name == FORCE_NAME for option in options):
            function = _force_option(function)
        option = click.option(
            *names,
            type=OutputPath(kind, is_all=is_all, folder_if=folder_if),
            metavar="FILE",
            callback=_judged,
            help=about,
        )
        return option(function)

    return decorate


def _judged(context: click.Context, option: click.Parameter, path: Path | None) -> Output:
    assert isinstance(option.type, OutputPath)  # noqa: S101 - a defect of ours, not of a user
    output = Output(path=path, force=bool(context.meta.get(FORCE)), kind=option.type.kind)
    folder_if = option.type.folder_if
    if path is None or (folder_if and folder_if(context.params)):
        return output
    if str(path) in STANDARD_OUTPUT:
        return _to_standard_output(context, output, is_all=option.type.is_all)
    _require_not_results(path, context.params.get("results"))
    writable_path(path, force=output.force, kind=output.kind)
    return output


def _keep_force(context: click.Context, _option: click.Parameter, force: bool) -> None:
    context.meta[FORCE] = force


_force_option: Final = click.option(
    "--force",
    FORCE_NAME,
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_keep_force,
    help="Replace any ordinary file, not only a report or export of Seatrial.",
)


def _to_standard_output(context: click.Context, output: Output, *, is_all: bool) -> Output:
    if not is_all and context.params.get("as_json"):
        raise UsageError(
            seen="Both the file and the document of --json would go to standard output",
            cause="An output of - or /dev/stdout is standard output",
            next_step="Name a file, or leave out --json",
        )
    stream = sys.stdout
    context.with_resource(contextlib.redirect_stdout(sys.stderr))
    return msgspec.structs.replace(output, stream=stream)


def _require_not_results(path: Path, results: Path | None) -> None:
    """Raise RefusedError when an output would replace the results file, by force or not."""
    if results is not None and path.resolve() == results.resolve():
        raise RefusedError(
            seen=f"{path} is the results file",
            cause="The output would replace what was measured",
            next_step="Name another file",
        )


def require_writable(path: Path) -> None:
    """Check that a file can be written later, so that nobody waits an hour to hear that it cannot.

    Raises:
        UsageError: when its folder is missing or closed to this user, or it is a folder itself.
    """
    folder = path.parent
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            seen=f"{path} cannot be written",
            cause="It is a folder, or its own folder is missing or read-only",
            next_step=f"Name another file, or see `ls -ld {folder}`",
        )


def writable_path(path: Path, *, force: bool = False, kind: Kind = REMADE) -> Path:
    """Return the path under which a file is written: the path itself, or where its link leads.

    Raises:
        RefusedError: when what is there must not be replaced: another's file, a device, a FIFO, or
            a link to anything but a file of this kind.
        UsageError: when it cannot be written there.
    """
    try:
        is_link = path.is_symlink()
        leads_nowhere = is_link and not path.exists()
    except OSError as error:
        raise UsageError(
            seen=f"{path} cannot be written: {error.strerror}",
            cause="Its folder is not accessible to this user, or the name is invalid",
            next_step="Name another file",
        ) from None
    if leads_nowhere:
        raise RefusedError(
            seen=f"{path} is a dangling symbolic link",
            cause="Writing through a link would create a file under another name",
            next_step=f"Name the file itself, or remove the link with `rm {path}`",
        )
    real = path.resolve() if is_link else path
    require_writable(real)
    try:
        mode = real.stat(follow_symlinks=False).st_mode
    except FileNotFoundError:
        return real
    if not stat.S_ISREG(mode):
        raise RefusedError(
            seen=f"{path} is not an ordinary file but {_file_type(mode)}",
            cause=f"A {kind.name} is written under another name first, and replaces what is there",
            next_step="Name a file",
        )
    if not os.access(real, os.W_OK):
        raise UsageError(
            seen=f"{path} cannot be written: it is read-only",
            cause="Its mode or its owner keeps this user from writing to it",
            next_step=f"Name another file, or see `ls -l {real}`",
        )
    _require_replaceable(path, real, kind, force=force)
    return real


def writable_trace_path(path: Path, *, force: bool, kind: Kind = TRACE) -> Path:
    """Return the path under which a trace is written; it has the ending ``.part`` meanwhile.

    Raises:
        RefusedError: when what is there, under either name, must not be replaced.
        UsageError: when it cannot be written there.
    """
    real = writable_path(path, force=force, kind=kind)
    part = Path(f"{real}.part")
    if part.is_symlink():
        raise RefusedError(
            seen=f"{part} is a symbolic link",
            cause=f"A {kind.name} is written under that name until it is complete",
            next_step=f"Name another file, or remove the link with `rm {part}`",
        )
    writable_path(part, force=True, kind=kind)
    return real


@contextlib.contextmanager
def keeping_owner(path: Path) -> Iterator[None]:
    """Give a file that is replaced inside to the owner of the one before, as far as allowed."""
    before = path.stat() if path.exists() else None
    yield
    if before is not None:
        with contextlib.suppress(PermissionError):
            os.chown(path, before.st_uid, before.st_gid)


def _require_replaceable(path: Path, real: Path, kind: Kind, *, force: bool) -> None:
    """Raise RefusedError when an ordinary file must not be replaced."""
    try:
        is_own = kind.is_own(real)
    except OSError:
        is_own = False
    via_link = path.is_symlink()
    is_empty = real.stat().st_size == 0
    if is_own and (force or kind.can_be_remade or is_empty):
        return
    if not via_link and not kind.needs_own and (force or is_empty):
        return
    if is_own:
        raise RefusedError(
            seen=f"{path} exists",
            cause=f"It is a {kind.name}, which cannot be recreated, or the name was mistyped",
            next_step="Name another file, or replace it with --force",
        )
    through = f", a symbolic link to {real}," if via_link else ""
    if via_link or kind.needs_own:
        way_out = f"Name another file; --force replaces a {kind.name} only"
        if via_link:
            way_out = "Name the file itself, and give --force if it may be replaced"
    else:
        way_out = "Name another file, or replace it with --force"
    raise RefusedError(
        seen=f"{path}{through} exists and is not a {kind.name}",
        cause="Its content would be lost; the name may be mistyped",
        next_step=way_out,
    )


def _file_type(mode: int) -> str:
    names = {
        stat.S_IFBLK: "a block device",
        stat.S_IFCHR: "a character device",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
    }
    return names.get(stat.S_IFMT(mode), "something else")


def _replace(path: Path, content: bytes, *, mode: int) -> None:
    """Replace a file as a whole, with the mode and the owner of one that was there.

    Args:
        path: Path of the file.
        content: Content of the file.
        mode: Mode of a new file, before the user's mask.

    Raises:
        OSError: when it cannot be written, or its owner not be kept.
    """
    try:
        kept = path.stat()
    except FileNotFoundError:
        kept = None
    part = path.with_name(f".seatrial-{os.urandom(8).hex()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(part, flags, mode if kept is None else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if kept is not None:
                own = os.fstat(descriptor)
                if (own.st_uid, own.st_gid) != (kept.st_uid, kept.st_gid):
                    os.fchown(descriptor, kept.st_uid, kept.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(kept.st_mode))
            file.flush()
            os.fsync(descriptor)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _secure_name(path.parent)


def _secure_name(folder: Path) -> None:
    """Have the new name survive a power cut, where the file system can."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    with contextlib.suppress(OSError), closing(os.open(folder, flags)) as descriptor:
        os.fsync(descriptor)


def failed(path: Path, error: OSError, otherwise: str) -> SeatrialError:
    """Return the error for a file that cannot be written; ``otherwise`` is another command."""
    kind = SpaceError if error.errno in _FULL else UsageError
    return kind(
        seen=f"{path} cannot be written: {error.strerror}",
        cause="The folder is missing, read-only or full, or the file belongs to another user; the "
        "run itself is stored",
        next_step=f"Write it elsewhere with `{otherwise}`",
    )
