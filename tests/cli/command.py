"""The real command in a process of its own: what it prints, and its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .preloaded import ForkedCommand, preloaded

SEATRIAL = str(Path(sys.executable).with_name("seatrial"))

Running = subprocess.Popen[str] | ForkedCommand


@dataclass(frozen=True)
class Ended:
    """What a command left: its exit code and all that it printed."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document that is on standard output, and nothing else is."""
        return json.loads(self.out)


def start(
    *arguments: str | Path, folder: Path, env: Mapping[str, str] | None = None, **how: Any
) -> Running:
    """Start ``seatrial`` in a folder: its results, reports and journals stay in there.

    It is forked from a process that has imported it (`preloaded`). ``group`` is the folder of a
    control group that it enters before it begins, ``start_new_session`` gives it a session.
    ``prefix`` is a command that runs it, such as ``setpriv``: with this and other arguments of
    Popen an interpreter is started.
    """
    heed_interrupts()
    environment = os.environ | own(folder) | (env or {})
    if how.keys() <= {"group", "start_new_session"}:
        with Path(os.devnull).open("rb") as null:
            return preloaded().start(arguments, folder, environment, null.fileno(), **how)
    return subprocess.Popen(
        [*how.pop("prefix", ()), SEATRIAL, *map(str, arguments)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **how,
    )


def own(folder: Path) -> dict[str, str]:
    """Keep results and journals of a command in its folder."""
    return {"SEATRIAL_STATE_DIR": str(folder / "state"), "SEATRIAL_RESULTS": "results.seatrial"}


def heed_interrupts() -> None:
    """Ctrl-C is ignored by what a shell starts in the background, and by all that this starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def ended(process: Running, timeout_s: float = 60.0) -> Ended:
    """Wait for a command; one that does not end in time is killed and fails the test."""
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"it did not end within {timeout_s} s: {out}{err}") from None
    return Ended(process.returncode, out, err)


def seatrial(*arguments: str | Path, folder: Path, timeout_s: float = 60.0, **how: Any) -> Ended:
    """Run ``seatrial`` to its end; arguments as for ``start``."""
    return ended(start(*arguments, folder=folder, **how), timeout_s)
