"""The undo journal: every change to the system is on disk before it is made.

One file a run, one JSON document a line. A ``kill -9`` at any moment leaves either a record of a
change that was not made, which its undoer reports as gone, or a torn last line for a change that
was not made either.

A kept journal's changes outlive its process until a command undoes them.
"""

from __future__ import annotations

import errno
import fcntl
import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from seatrial.descriptor import closing
from seatrial.errors import RefusedError, SeatrialError, UsageError
from seatrial.interrupts import uninterrupted
from seatrial.machine.marker import folder_name
from seatrial.machine.undoers import UNDOERS, Outcome, Result
from seatrial.process_identity import OwnerProcess

_SUFFIX: Final = ".undo.jsonl"
_LOCK_NAME: Final = "undo.lock"
_FULL: Final = {errno.ENOSPC, errno.EDQUOT}


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """The result of undoing one recorded change.

    Attributes:
        run_id: The run that made it.
        kind: What was changed: file, loop, mount, scheduler, cgroup, process, setting, server,
            socket_folder, remote_database, remote_objects, frozen, dm, flaky, lab or zfs_daemon;
            or what a backend of layouts made, such as btrfs; journal for the journal as a whole.
        subject: The changed object: a path, a device, a process number, a name of a database.
        outcome: ``undone``; ``gone`` (nothing was left of it); ``foreign`` (what is there now is
            not ours, and was left alone); ``failed`` (stays in the journal); ``pending`` (would
            be undone, but for the dry run); ``running`` (its run is still active: left alone);
            ``kept`` (stays until a command undoes it).
        detail: What was found or done, as a phrase.
    """

    run_id: str
    kind: str
    subject: str
    outcome: Outcome
    detail: str


Details = dict[str, Any]
"""The arguments of an undoer, as JSON has them."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A note in a journal that its changes stay after the end of its process.

    Attributes:
        name: The user's name for it.
        undone_by: The command that undoes it.
        about: Further facts, as plain values.
    """

    name: str
    undone_by: str
    about: Details = {}


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """Namespaces below ours, on this machine, whose journals are judged from here.

    Attributes:
        own_paths: Mount points of the container's own file systems, which its creator removes.
    """

    own_paths: list[str] = []

    def has(self, line: _Line) -> bool:
        """Return whether a change was made in one of its own file systems."""
        undoer = UNDOERS.get(line.kind)
        subject = Path(str(line.details.get(undoer.subject, ""))) if undoer else Path()
        return any(subject.is_relative_to(path) for path in self.own_paths)


class _Line(msgspec.Struct, omit_defaults=True):
    """One line of a journal: an owner, a record, the end of a record, or whether it is kept."""

    owner: OwnerProcess | None = None
    id: int = 0
    kind: str = ""
    details: Details = {}
    done: int = 0
    kept: Kept | None = None
    released: bool = False


@dataclass(kw_only=True)
class _Content:
    """The content of a journal's file.

    ``owner`` is the last writer, ``pending`` holds the changes still to undo by number of entry,
    ``id_last`` is the last number used, ``whole_bytes`` is the length without a torn last line,
    ``unreadable`` counts invalid lines before it, and ``kept`` is set while the changes are to
    outlive their owner.
    """

    owner: OwnerProcess | None = None
    pending: dict[int, _Line] = field(default_factory=dict)
    id_last: int = 0
    whole_bytes: int = 0
    unreadable: int = 0
    kept: Kept | None = None

    def apply(self, line: _Line) -> None:
        if line.owner is not None:
            self.owner = line.owner
        elif line.done:
            self.pending.pop(line.done, None)
        elif line.kept is not None or line.released:
            self.kept = line.kept
        elif line.id:
            self.pending[line.id] = line
            self.id_last = max(line.id, self.id_last)


def state_folder() -> Path:
    """Return the folder of journals: ``$SEATRIAL_STATE_DIR``, else in the user's state folder.

    Source: the XDG Base Directory Specification, ``XDG_STATE_HOME``.
    """
    own = os.environ.get("SEATRIAL_STATE_DIR")
    if own:
        return Path(own)
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local/state") / "seatrial/undo"


class UndoJournal:
    """The journal of one run; leaving it as a context undoes everything that it recorded.

    The file is created with the first record and removed when nothing is left to undo. A journal of
    the same run whose process has ended is taken over.

    Args:
        run_id: The run.
        folder: The folder of journals; by default ``state_folder()``.
        release: Whether kept changes are to be undone now: the journal may then be taken over even
            from its living owner, and after a kill ``clean`` undoes the rest.
        container: Where its earlier owner is known to have run.

    Attributes:
        run_id: The run.
        path: The journal's file.
        ended_by_reboot: Changes of an earlier owner that the machine's restart has undone.

    Raises:
        RefusedError: when another process is executing the same run.
        UsageError: when the state folder cannot be used.
        ValueError: when the run's name is not safe in a path.
    """

    def __init__(
        self,
        run_id: str,
        folder: Path | None = None,
        *,
        release: bool = False,
        container: Container | None = None,
    ) -> None:
        folder_name(run_id)
        self.run_id = run_id
        self._container = container
        self.path = (folder or state_folder()) / f"{run_id}{_SUFFIX}"
        self.ended_by_reboot: list[Undone] = []
        with _explained(self.path.parent):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _locked(self.path.parent):
                self._content = self._take_over(release) if self.path.exists() else _Content()

    def record(self, kind: str, **details: str | float) -> int:
        """Record a change that is about to be made; return the entry's number.

        It is on disk when this returns. Recording the same change twice makes one entry.

        Raises:
            ValueError: when the kind is unknown.
            TypeError: when the details are not those that its undoer takes.
            UsageError: when the journal cannot be written; then the change must not be made.
        """
        if kind not in UNDOERS:
            raise ValueError(f"no undoer for {kind!r}")
        inspect.signature(UNDOERS[kind].undo).bind(**details)
        for entry, line in self._content.pending.items():
            if (line.kind, line.details) == (kind, details):
                return entry
        line = _Line(id=self._content.id_last + 1, kind=kind, details=details)
        with _explained(self.path.parent), uninterrupted():
            self._append(line)
        return line.id

    def find(self, kind: str, **details: str | float) -> tuple[int, Details] | None:
        """Return number and details of the last entry of a kind with all these details."""
        for entry, line in reversed(self._content.pending.items()):
            if line.kind == kind and details.items() <= line.details.items():
                return entry, dict(line.details)
        return None

    def amend(self, entry: int, **details: Any) -> None:  # noqa: ANN401 - as JSON has them
        """Add details that are known only after the change was made, such as an inode.

        Raises:
            TypeError: when the details are not those that its undoer takes.
            UsageError: when the journal cannot be written.
        """
        line = self._content.pending[entry]
        known = {**line.details, **details}
        if known == line.details:
            return
        inspect.signature(UNDOERS[line.kind].undo).bind(**known)
        with _explained(self.path.parent):
            self._append(_Line(id=entry, kind=line.kind, details=known))

    def done(self, entry: int) -> None:
        """Mark a change as undone, or as never made; the last one removes the file.

        If the mark cannot be written, as on a full disk, the file keeps a record of a change that
        no longer exists, which a later undo reports as gone.

        Raises:
            UsageError: when the file cannot be removed.
        """
        if entry not in self._content.pending:
            return
        with _explained(self.path.parent), uninterrupted():
            self._settle(_Line(done=entry))
            self._put_away_if_settled()

    def undo(self, entry: int) -> Undone:
        """Undo one change now; a change that was undone before is reported as gone.

        Signals are deferred until it is undone and marked.
        """
        line = self._content.pending.get(entry)
        if line is None:
            detail = "it was already undone"
            return _report(self.run_id, _Line(id=entry), Outcome.GONE, detail)
        with uninterrupted():
            result = _undo(line)
            if result.outcome != Outcome.FAILED:
                self.done(entry)
        return _report(self.run_id, line, result.outcome, result.detail)

    def undo_all(self) -> list[Undone]:
        """Undo everything, the last change first; what fails stays in the journal.

        Signals are deferred until all is undone: a partial undo would be worse than none.
        """
        with uninterrupted():
            return [self.undo(entry) for entry in sorted(self._content.pending, reverse=True)]

    def keep(self, kept: Kept) -> None:
        """Keep the recorded changes: neither leaving the journal nor ``clean`` undoes them.

        Raises:
            UsageError: when the journal cannot be written; then it is not kept.
        """
        with _explained(self.path.parent):
            self._append(_Line(kept=kept))

    def entries(self, kind: str) -> list[int]:
        """Return the numbers of all changes of a kind that are not undone yet, in order."""
        return [entry for entry, line in self._content.pending.items() if line.kind == kind]

    def has_mounted(self, point: str) -> bool:
        """Return whether this run recorded a mount on that folder, alone or with an array."""
        lines = self._content.pending.values()
        return any(line.details.get("point") == point for line in lines)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._content.kept is not None:
            return
        left = [undone for undone in self.undo_all() if undone.outcome == Outcome.FAILED]
        if not left:
            return
        if error is None:
            raise _not_undone(left)
        error.add_note(str(_not_undone(left)))

    def _take_over(self, release: bool) -> _Content:
        """Take over the journal of an ended process, or of one that kept it; under the lock."""
        content = _read(self.path)
        current, owner = OwnerProcess.current(), content.owner
        takeable = {"dead", "alive"} if release and content.kept is not None else {"dead"}
        is_below = self._container is not None
        if owner not in {None, current} and owner.state(is_below=is_below) not in takeable:
            raise _still_running(self.run_id, owner)
        os.truncate(self.path, content.whole_bytes)
        self._content = content
        if owner is not None and owner.boot_id != current.boot_id:
            self._settle_what_the_reboot_undid()
        for line in list(content.pending.values()):
            if self._container is not None and self._container.has(line):
                self._settle(_Line(done=line.id))
        self._settle(_Line(owner=current))
        if release:
            self._append(_Line(released=True))
        self._put_away_if_settled()
        return content

    def _settle_what_the_reboot_undid(self) -> None:
        for line in list(self._content.pending.values()):
            undoer = UNDOERS.get(line.kind)
            if undoer is not None and not undoer.survives_reboot:
                self._settle(_Line(done=line.id))
                ended = _report(
                    self.run_id, line, Outcome.GONE, "the reboot of the machine undid it"
                )
                self.ended_by_reboot.append(ended)

    def _give_back(self, owner: OwnerProcess | None) -> None:
        """Return what could not be undone to its dead owner, for the next clean."""
        if owner is not None and self.path.exists():
            self._settle(_Line(owner=owner))

    def _settle(self, line: _Line) -> None:
        """Record that an entry is settled; optional on a full disk, as it only saves later work."""
        try:
            self._append(line)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            self._content.apply(line)

    def _append(self, line: _Line) -> None:
        lines, is_new = [line], not self.path.exists()
        if is_new:
            # If the file was removed, earlier records still have to be undone.
            lines = [_Line(owner=OwnerProcess.current()), *self._content.pending.values(), line]
        data = b"".join(msgspec.json.encode(each) + b"\n" for each in lines)
        if is_new:
            _create(self.path)
        _append_line(self.path, data)
        self._content.apply(line)

    def _put_away_if_settled(self) -> None:
        """Remove the file when all is undone; unreadable lines are moved aside."""
        if self._content.pending or self._content.kept is not None:
            return
        if self._content.unreadable:
            self.path.rename(self.path.with_suffix(".unreadable"))
        else:
            self.path.unlink()
        _sync_folder(self.path.parent)


def clean(
    *, dry_run: bool = False, folder: Path | None = None, container: Container | None = None
) -> list[Undone]:
    """Undo whatever dead runs left behind, the last change first.

    Changes that are kept or whose run is active are not touched.

    Args:
        dry_run: Only report what would be undone.
        folder: The folder of journals; by default ``state_folder()``.
        container: Where the runs are known to have been.

    Raises:
        UsageError: when the state folder cannot be used.
    """
    folder = folder or state_folder()
    with _explained(folder):
        # Run names begin with the time; a newer run may be on a file system that an older one
        # mounted.
        return [
            undone
            for path in reversed(_journals(folder))
            for undone in _clean_one(path, dry_run=dry_run, container=container)
        ]


def kept_journals(folder: Path | None = None) -> dict[str, Kept]:
    """Return this user's kept changes, by run, the oldest first.

    Args:
        folder: The folder of journals; by default ``state_folder()``.

    Raises:
        UsageError: when the state folder cannot be used.
    """
    folder = folder or state_folder()
    with _explained(folder):
        found = {_run_of(path): _kept_by(path) for path in _journals(folder)}
    return {run_id: kept for run_id, kept in found.items() if kept is not None}


def _journals(folder: Path) -> list[Path]:
    """Return the journals of a folder by name; raises OSError where it cannot be read."""
    try:
        return sorted(path for path in folder.iterdir() if path.name.endswith(_SUFFIX))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _kept_by(path: Path) -> Kept | None:
    try:
        return _read(path).kept if _is_own(path) else None
    except FileNotFoundError:
        return None  # Undone by another process meanwhile.


def _clean_one(path: Path, *, dry_run: bool, container: Container | None) -> list[Undone]:
    """Clean one journal; another clean may do so at the same time."""
    try:
        return _judge_and_undo(path, dry_run=dry_run, container=container)
    except FileNotFoundError:
        return []
    except RefusedError:
        return [_about_all_of(path, Outcome.RUNNING, "another process has taken it over")]


def _judge_and_undo(path: Path, *, dry_run: bool, container: Container | None) -> list[Undone]:
    if not _is_own(path):
        detail = f"it belongs to user {path.stat().st_uid}; run clean as that user"
        return [_about_all_of(path, Outcome.FAILED, detail)]
    content = _read(path)
    if content.kept is not None:
        detail = f"{content.kept.name} remains as requested; {content.kept.undone_by} undoes it"
        return [_about_all_of(path, Outcome.KEPT, detail)]
    is_below = container is not None
    state = content.owner.state(is_below=is_below) if content.owner else "dead"
    if content.owner and state == "alive":
        return [
            _about_all_of(path, Outcome.RUNNING, f"process {content.owner.pid} is still running")
        ]
    if content.owner and state == "elsewhere":
        where = f"{content.owner.host}, {content.owner.pid_namespace}"
        detail = f"it was created on another host or in another container ({where})"
        return [_about_all_of(path, Outcome.FAILED, detail)]
    if dry_run:
        lines = sorted(content.pending.values(), key=lambda line: line.id, reverse=True)
        detail = "it would be undone"
        return [_report(_run_of(path), line, Outcome.PENDING, detail) for line in lines]
    journal = UndoJournal(_run_of(path), path.parent, container=container)
    undone = journal.ended_by_reboot + journal.undo_all()
    journal._give_back(content.owner)
    if content.unreadable:
        detail = f"{content.unreadable} of its lines cannot be read; they are stored next to it"
        undone.append(_about_all_of(path, Outcome.FAILED, detail))
    return undone


def _is_own(path: Path) -> bool:
    """Return whether a journal is the user's own.

    The writer of a journal decides what is removed: never with another user's rights.
    """
    return path.stat().st_uid == os.geteuid()


def _run_of(path: Path) -> str:
    return path.name.removesuffix(_SUFFIX)


def _about_all_of(path: Path, outcome: Outcome, detail: str) -> Undone:
    """Report on a journal as a whole."""
    line = _Line(kind="journal", details={"path": str(path)})
    return _report(_run_of(path), line, outcome, detail)


def _undo(line: _Line) -> Result:
    """Call a record's undoer; any exception becomes a failure with its reason."""
    undoer = UNDOERS.get(line.kind)
    if undoer is None:
        detail = (
            f"unknown kind {line.kind}, recorded by a newer version; use `clean` of that version"
        )
        return Result(outcome=Outcome.FAILED, detail=detail)
    try:
        return undoer.undo(**line.details)
    except SeatrialError as error:
        return Result(outcome=Outcome.FAILED, detail=str(error))
    except (OSError, TypeError, ValueError) as error:
        return Result(outcome=Outcome.FAILED, detail=f"{type(error).__name__}: {error}")


def _report(run_id: str, line: _Line, outcome: Outcome, detail: str) -> Undone:
    undoer = UNDOERS.get(line.kind)
    key = undoer.subject if undoer else "path"
    subject = str(line.details.get(key, ""))
    return Undone(run_id=run_id, kind=line.kind, subject=subject, outcome=outcome, detail=detail)


def _read(path: Path) -> _Content:
    """Read a journal; its last line may be torn if its writer was killed."""
    content = _Content()
    raw = path.read_bytes()
    content.whole_bytes = raw.rfind(b"\n") + 1
    decoder = msgspec.json.Decoder(_Line)
    for text in raw[: content.whole_bytes].splitlines():
        try:
            content.apply(decoder.decode(text))
        except msgspec.DecodeError:
            content.unreadable += 1
    return content


def _create(path: Path) -> None:
    """Create the empty file durably."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    os.close(os.open(path, flags, 0o600))
    _sync_folder(path.parent)


def _append_line(path: Path, data: bytes) -> None:
    """Append a line durably; a failure leaves the file unchanged."""
    with closing(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)) as descriptor:
        before_bytes = os.fstat(descriptor).st_size
        try:
            _write_whole(descriptor, data)
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, before_bytes)
            raise


def _write_whole(descriptor: int, data: bytes) -> None:
    """Write all or raise: a full disk may take only a part."""
    if os.write(descriptor, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _sync_folder(folder: Path) -> None:
    with closing(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor:
        os.fsync(descriptor)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Allow one process at a time to take over journals."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    with closing(os.open(folder / _LOCK_NAME, flags, 0o600)) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Turn an OSError of the state folder into an error with cause and next step."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            seen=f"The undo journal in {folder} cannot be used: {error.strerror or error}",
            cause="Changes of a killed run could not be undone without it, so nothing was changed",
            next_step="Set SEATRIAL_STATE_DIR to a writable directory, and retry",
        ) from None


def _still_running(run_id: str, owner: OwnerProcess) -> RefusedError:
    return RefusedError(
        seen=f"Process {owner.pid} on {owner.host} is measuring the run {run_id}",
        cause="Two processes with the same run would undo each other's changes",
        next_step="Wait for that process or end it, then retry",
    )


def _not_undone(left: list[Undone]) -> SeatrialError:
    listed = "; ".join(f"{undone.kind} {undone.subject}: {undone.detail}" for undone in left)
    changes = "1 change" if len(left) == 1 else f"{len(left)} changes"
    return SeatrialError(
        seen=f"{changes} to the system could not be undone: {listed}",
        cause="Each states its reason; often another program uses the files or devices of the run",
        next_step="Remove that reason, then run `seatrial clean`; `seatrial list` shows what was "
        "measured and stored",
    )
