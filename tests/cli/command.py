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

SEATRIAL = str(Path(sys.executable).with_name("seatrial"))


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
    *arguments: str | Path,
    folder: Path,
    env: Mapping[str, str] | None = None,
    prefix: tuple[str, ...] = (),
    **how: Any,
) -> subprocess.Popen[str]:
    """Start ``seatrial`` in a folder: its results, reports and journals stay in there.

    ``prefix`` is a command that runs it, such as ``setpriv``.
    """
    heed_interrupts()
    own = {"SEATRIAL_STATE_DIR": str(folder / "state"), "SEATRIAL_RESULTS": "results.seatrial"}
    return subprocess.Popen(
        [*prefix, SEATRIAL, *map(str, arguments)],
        cwd=folder,
        env=os.environ | own | (env or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **how,
    )


def heed_interrupts() -> None:
    """Ctrl-C is ignored by what a shell starts in the background, and by all that this starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def ended(process: subprocess.Popen[str], timeout_s: float = 60.0) -> Ended:
    """Wait for a command; one that does not end in time is killed and fails the test."""
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"it did not end within {timeout_s} s: {out}{err}") from None
    return Ended(process.returncode, out, err)


def seatrial(*arguments: str | Path, folder: Path, timeout_s: float = 60.0, **how: Any) -> Ended:
    """Run ``seatrial`` to its end."""
    return ended(start(*arguments, folder=folder, **how), timeout_s)
