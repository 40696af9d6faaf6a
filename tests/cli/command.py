"""The real command in a process of its own: what it prints, and its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .preloaded import GROUP, preloaded

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
    return subprocess.Popen(
        [*prefix, SEATRIAL, *map(str, arguments)],
        cwd=folder,
        env=os.environ | own(folder) | (env or {}),
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
    """Run ``seatrial`` to its end: forked from a process that has imported it (`preloaded`).

    ``group`` is the folder of a control group that it enters before it begins.
    """
    if how.keys() - {"env", "group"}:
        return ended(start(*arguments, folder=folder, **how), timeout_s)
    with ExitStack() as stack:
        null = stack.enter_context(Path(os.devnull).open("rb"))
        pipes = [os.pipe() for _ in range(2)]
        environment = os.environ | own(folder) | (how.get("env") or {})
        if group := how.get("group"):
            environment[GROUP] = str(group)
        streams = (null.fileno(), *(writer for _, writer in pipes))
        reply = preloaded().start([str(each) for each in arguments], folder, environment, streams)
        for _, writer in pipes:
            os.close(writer)
        reader = stack.enter_context(reply.makefile())
        reply.settimeout(timeout_s)
        pool = stack.enter_context(ThreadPoolExecutor(2))
        out, err = (pool.submit(read_all, number) for number, _ in pipes)
        pid = int(reader.readline())
        try:
            code = int(reader.readline())
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise AssertionError(
                f"it did not end within {timeout_s} s: {out.result()}{err.result()}"
            ) from None
        return Ended(code, out.result(), err.result())


def read_all(number: int) -> str:
    """Read a pipe to its end."""
    with open(number, "rb") as pipe:
        return pipe.read().decode()
