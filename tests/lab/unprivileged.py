"""Run a command as the user nobody, who is shown what its paths lead to and nothing more.

A checkout often lies where only its owner may look, as in a home folder. In a mount namespace of
the command's own such a folder is replaced by an empty one, into which only the folders that the
command needs are mounted again, under the same paths.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534
LET_GO = "awk '$1 ~ /^.dev.loop/ {print $2}' /proc/mounts | xargs -r umount --lazy"
"""A namespace has copies of all mounts: these would keep file systems that other tests unmount."""


@contextmanager
def folder_of_nobody() -> Iterator[Path]:
    """A folder that nobody may write to, outside of what pytest keeps for itself."""
    folder = Path(tempfile.mkdtemp(prefix="seatrial-test-nobody-"))
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


def unprivileged(argv: Sequence[str], needed: Sequence[Path], scratch: Path) -> list[str]:
    """The command as an ordinary user; as it stands where we are none but one.

    Args:
        argv: The command.
        needed: Folders that it must be able to read.
        scratch: A folder of ours for mount points.
    """
    if os.geteuid() != 0:
        return list(argv)
    missing = [name for name in ("unshare", "setpriv") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs {missing[0]} to become nobody: apt-get install util-linux")
    drop = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    rights = ("--inh-caps=-all", "--no-new-privs")
    script = [LET_GO, *_show_only(needed, scratch), f"exec {shlex.join([*drop, *rights, *argv])}"]
    return ["unshare", "--mount", "sh", "-ec", "\n".join(script)]


def python_folders() -> list[Path]:
    """Where this interpreter and its packages lie."""
    return [Path(sys.prefix), Path(sys.base_prefix)]


def _show_only(needed: Sequence[Path], scratch: Path) -> Iterator[str]:
    """The commands that make the needed folders reachable."""
    hidden: dict[Path, list[Path]] = {}
    for folder in {each.resolve() for each in needed}:
        closed = next((each for each in reversed(folder.parents) if _is_closed(each)), None)
        if closed is not None:
            hidden.setdefault(closed, []).append(folder)
    for closed, folders in hidden.items():
        asides = [(scratch / f"aside{folder}", folder) for folder in sorted(folders)]
        for aside, folder in asides:
            yield shlex.join(["mkdir", "-p", str(aside)])
            yield shlex.join(["mount", "--bind", str(folder), str(aside)])
        yield shlex.join(["mount", "-t", "tmpfs", "-o", "mode=755", "shown", str(closed)])
        for aside, folder in asides:
            yield shlex.join(["mkdir", "-p", str(folder)])
            yield shlex.join(["mount", "--bind", str(aside), str(folder)])


def _is_closed(folder: Path) -> bool:
    return not folder.stat().st_mode & 0o001
