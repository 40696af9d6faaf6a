"""The account of our server: the user, or, when started by root, a uid that is otherwise unused.

PostgreSQL refuses to run as root. No user is created and no folder's mode is changed: the server's
processes have a uid without a name. If its data is below a folder that this uid may not pass, such
as ``/root``, the processes keep one capability that allows it.

PostgreSQL's programs find each other by access(2), which ignores the capabilities of all users but
root. If they are below such a folder, a secure bit makes access(2) respect them.

Sources: setpriv(1); capabilities(7), ``CAP_DAC_READ_SEARCH``, "Ambient set" and
``SECBIT_NO_SETUID_FIXUP``; Linux's fs/open.c, ``access_override_creds``; for the numbers that no
distribution hands out, systemd's "Users, Groups, UIDs and GIDs on systemd Systems".
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from seatrial.errors import TargetError
from seatrial.interrupts import uninterrupted
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.postgres.binaries import NEEDED_PROGRAMS, Binaries

UID_FIRST: Final = 61183
UID_LAST: Final = 60706
"""The search goes down from the first to the last; no distribution assigns these numbers."""

_CAPABILITIES: Final = {"dac_override": 1, "dac_read_search": 2, "setpcap": 8}
_ACCESS_USES_CAPABILITIES: Final = "--securebits=+no_setuid_fixup"
_NAMES_WITHOUT_RIGHTS: Final = ("nobody", "daemon", "bin")
_REMOVED_PREFIXES: Final = ("PG", "LC_", "LANG")


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The account that the programs of a server run as.

    Attributes:
        uid: User id.
        gid: Group id.
        is_dropped: Whether root drops its privileges to it.
        capability: The capability that it keeps to reach its folders; empty if not needed.
        is_needed_for_programs: Whether it is needed to find the programs, too.
    """

    uid: int
    gid: int
    is_dropped: bool = False
    capability: str = ""
    is_needed_for_programs: bool = False

    def take_ownership(self, path: Path) -> None:
        """Give a file, or a folder with its content, to the account; the folder's mode is 0700.

        Raises:
            TargetError: when the file system does not allow it.
        """
        try:
            if self.is_dropped:
                for each in _all_below(path):
                    os.chown(each, self.uid, self.gid, follow_symlinks=False)
            if path.is_dir():
                path.chmod(0o700)
        except OSError as error:
            raise _chown_failed(path, error) from None

    def popen(
        self,
        args: Sequence[str | Path],
        **kwargs: Any,  # noqa: ANN401 - those of subprocess.Popen
    ) -> subprocess.Popen[bytes]:
        """Start a program as this account, without a shell, with messages in English.

        Environment variables that would configure PostgreSQL are removed, unless ``env`` is given.
        Its working folder is the root folder, unless ``cwd`` is given.

        Raises:
            OSError: when it cannot be started.
        """
        kwargs.setdefault("cwd", "/")
        kwargs.setdefault("env", plain_environment())
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        if self.is_dropped and not self._needs_setpriv:
            kwargs = {"user": self.uid, "group": self.gid, "extra_groups": [], **kwargs}
        with uninterrupted():
            return subprocess.Popen(self.command(args), **kwargs)

    def run(
        self,
        args: Sequence[str | Path],
        *,
        timeout_s: float,
        **kwargs: Any,  # noqa: ANN401 - those of subprocess.Popen
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a program as this account to its end and return its output.

        It has its own session, so that the shells through which initdb starts servers, which could
        not be identified otherwise, are killed with it.

        Raises:
            OSError: when it cannot be started.
            subprocess.TimeoutExpired: when it ran longer than ``timeout_s`` seconds; it is killed.
        """
        usual = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True}
        with self.popen(args, **{**usual, **kwargs}) as process:
            try:
                output, errors = process.communicate(timeout=timeout_s)
            except BaseException:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def command(self, args: Sequence[str | Path], *, step_down: bool = False) -> list[str]:
        """Return the arguments of a process that executes the program.

        Args:
            args: The program and its arguments.
            step_down: Whether the process is still root, for preparations, and must drop privileges
                    itself.

        Raises:
            TargetError: when that requires setpriv, which is missing.
        """
        words = [str(each) for each in args]
        if not self.is_dropped or not (self._needs_setpriv or step_down):
            return words
        prefix = [_setpriv(), f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups"]
        if self.is_needed_for_programs:
            prefix.append(_ACCESS_USES_CAPABILITIES)
        if self.capability:
            prefix += [f"--inh-caps=+{self.capability}", f"--ambient-caps=+{self.capability}"]
        return [*prefix, "--", *words]

    @property
    def _needs_setpriv(self) -> bool:
        return bool(self.capability)


def account_for(folder: Path, binaries: Binaries) -> Account:
    """Return the account that a server with its data in ``folder`` runs as.

    An ordinary user is used as is. Root uses the uid that owns the folder if an earlier step of the
    run gave it away, else the first without a name or process.

    Args:
        folder: The data folder; it need not exist yet, the folder above it must.
        binaries: The programs that the account must be able to run.

    Raises:
        TargetError: when root cannot drop privileges, or no account could reach the folder.
    """
    if os.geteuid() != 0:
        return Account(uid=os.geteuid(), gid=os.getegid())
    uid = _owner_of_ours(folder) or unused_uid()
    closed = _inaccessible_part(binaries, uid)
    blocking = first_closed_folder(folder.parent, uid) or closed
    capability = _capability_past(blocking, binaries, uid) if blocking else ""
    if closed is not None and not _has_capability("setpcap"):
        raise _cannot_pass(closed, uid, "setpcap")
    return Account(
        uid=uid,
        gid=uid,
        is_dropped=True,
        capability=capability,
        is_needed_for_programs=closed is not None,
    )


def account_with_name(account: Account) -> Account:
    """Return an account for initdb, which refuses to run as a user without a name.

    It is the account itself, or for a uid without a name the system's ``nobody``. Files created by
    initdb are given to the account afterwards.

    Source: PostgreSQL's src/common/username.c, ``get_user_name``.

    Raises:
        TargetError: when this system has no such user.
    """
    if not account.is_dropped or _has_user(account.uid):
        return account
    for name in _NAMES_WITHOUT_RIGHTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid and _is_mapped(entry.pw_uid):
            return msgspec.structs.replace(account, uid=entry.pw_uid, gid=entry.pw_gid)
    raise TargetError(
        seen=f"None of the users {', '.join(_NAMES_WITHOUT_RIGHTS)} exists on this system",
        cause="PostgreSQL's initdb refuses to run as root or as a user without a name",
        next_step="Run the command as an ordinary user",
    )


def unused_uid() -> int:
    """Return an unused uid, also usable as gid, without name or process.

    Raises:
        TargetError: when there is none, as in a container with few ids.
    """
    busy = set(_uids_of_processes())
    for uid in range(UID_FIRST, UID_LAST - 1, -1):
        if uid not in busy and not _has_name(uid) and _is_mapped(uid):
            return uid
    raise TargetError(
        seen=f"No unused user ID between {UID_LAST} and {UID_FIRST} is available",
        cause="PostgreSQL refuses to run as root, and this container has too few user IDs to"
        " switch to another user; see /proc/self/uid_map",
        next_step="Run the command as an ordinary user",
    )


def first_closed_folder(folder: Path, uid: int) -> Path | None:
    """Return the topmost folder of a path that a uid without groups may not pass, or None.

    The permission bits for others decide: such a uid has no others, and no access control list
    entry.
    """
    real = folder.resolve()
    for each in [*reversed(real.parents), real]:
        if not _has_permission(each, uid, stat.S_IXUSR, stat.S_IXOTH):
            return each
    return None


def plain_environment() -> dict[str, str]:
    """Return this process's environment without variables for PostgreSQL or its language."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(_REMOVED_PREFIXES)
    }
    return kept | {"LC_ALL": "C"}


def _owner_of_ours(folder: Path) -> int | None:
    """Return the uid that owns a folder, if it is one of those that we use."""
    try:
        uid = folder.stat().st_uid
    except OSError:
        return None
    return uid if UID_LAST <= uid <= UID_FIRST and not _has_name(uid) else None


def _inaccessible_part(binaries: Binaries, uid: int) -> Path | None:
    """Return the part of the programs that a uid may not use, folders first, or None."""
    closed = first_closed_folder(binaries.folder, uid)
    if closed is not None:
        return closed
    for name in NEEDED_PROGRAMS:
        program = binaries.folder / name
        if not _has_permission(program, uid, stat.S_IXUSR, stat.S_IXOTH):
            return program
    return None


def _capability_past(blocking: Path, binaries: Binaries, uid: int) -> str:
    """Return the least capability that lets a uid pass, or raise if none does."""
    programs = [binaries.folder / name for name in NEEDED_PROGRAMS]
    # A program closed to others needs the capability that includes execution.
    is_closed = any(
        not _has_permission(program, uid, stat.S_IXUSR, stat.S_IXOTH) for program in programs
    )
    wanted = ("dac_override",) if is_closed else ("dac_read_search", "dac_override")
    for name in wanted:
        if _has_capability(name) and shutil.which("setpriv"):
            return name
    raise _cannot_pass(blocking, uid, wanted[0])


def _has_capability(capability: str) -> bool:
    """Return whether this process has a capability, and may pass it on."""
    capabilities = int(_status_field("CapBnd") or "0", 16) & int(_status_field("CapPrm") or "0", 16)
    return bool(capabilities >> _CAPABILITIES[capability] & 1)


def _cannot_pass(blocking: Path, uid: int, capability: str) -> TargetError:
    return TargetError(
        seen=f"The server would run as user {uid}, who cannot access {blocking}",
        cause="PostgreSQL refuses to run as root, so another user runs it, and the capability"
        f" {capability} or util-linux's setpriv is missing to access that folder",
        next_step=f"Allow access with `chmod o+x {blocking}`, use another directory, or run the"
        " command as an ordinary user",
    )


def _has_permission(path: Path, uid: int, as_owner: int, as_other: int) -> bool:
    try:
        status = path.stat()
    except OSError:
        return True  # What does not exist yet will be created by us.
    return bool(status.st_mode & (as_owner if status.st_uid == uid else as_other))


def _setpriv() -> str:
    program = shutil.which("setpriv")
    if program:
        return program
    raise TargetError(
        seen="The command setpriv was not found",
        cause="It is needed to switch from root to the user that runs the server",
        next_step="Install it with `apt-get install util-linux`, or run as an ordinary user",
    )


def _uids_of_processes() -> Iterator[int]:
    for name in LIVE.names("/proc"):
        status = LIVE.status(f"/proc/{name}") if name.isdigit() else None
        if status is not None:
            yield status.st_uid


def _has_name(number: int) -> bool:
    """Return whether a number is a user id or a group id with a name."""
    try:
        grp.getgrgid(number)
    except KeyError:
        return _has_user(number)
    return True


def _has_user(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _is_mapped(number: int) -> bool:
    """Return whether our user namespace maps the number, as uid and as gid.

    Source: user_namespaces(7), ``/proc/[pid]/uid_map``: first inside, first outside, count.
    """
    for name in ("uid_map", "gid_map"):
        ranges = [line.split() for line in (LIVE.text(f"/proc/self/{name}") or "").splitlines()]
        if not any(0 <= number - int(each[0]) < int(each[2]) for each in ranges):
            return False
    return True


def _status_field(name: str) -> str:
    for line in (LIVE.text("/proc/self/status") or "").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value.strip()
    return ""


def _all_below(path: Path) -> Iterator[Path]:
    yield path
    if path.is_dir() and not path.is_symlink():
        for folder, folders, files in os.walk(path):
            yield from (Path(folder, name) for name in [*folders, *files])


def _chown_failed(path: Path, error: OSError) -> TargetError:
    return TargetError(
        seen=f"The owner of {path} cannot be set to the server's user: {error.strerror}",
        cause="Its file system has no owners (vfat, exfat, some network mounts), or root may"
        " not change them there",
        next_step="Use a directory on a Linux file system, or run as an ordinary user",
    )
