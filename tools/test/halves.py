"""Runs the tests of Python in two halves side by side, and what failed once more, alone.

    python tools/test/halves.py tests/analysis tests/report ...

The tests that are named time nothing: they run beside all others, which mostly wait for devices and
servers. Two processors are then busy, and those of a shared machine are now and then gone for
seconds. So a test may fail for its neighbours. Run again when all else has ended, it passes if that
was all; then it is named as unsteady, which is a fault to be found, and the exit code is 0. Where
more than a few fail it is not the neighbours, and nothing is run again.

Exit code: 0 when each test passed, the first time or alone; else pytest's.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(".cache")

# What to look at first where the whole takes too long.
SLOWEST = ("--durations=10", "--durations-min=10")

# So many failures may be the machine's; more are the change's.
FEW = 3

# pytest's own exit code for "tests ran, and some failed"; any other one is no matter of a test.
SOME_FAILED = 1


@dataclass(frozen=True)
class Half:
    """Tests that run one after the other."""

    name: str
    arguments: tuple[str, ...]

    @property
    def cache(self) -> Path:
        """Where pytest keeps what it knows of the run before."""
        return CACHE / f"pytest-{self.name}"

    def command(self, *more: str) -> list[str]:
        """The command line, with more options."""
        pytest = [sys.executable, "-m", "pytest", "-o", f"cache_dir={self.cache}", *SLOWEST]
        return [*pytest, *more, *self.arguments]

    def failed(self) -> list[str]:
        """The tests that failed when it ran last."""
        told = self.cache / "v/cache/lastfailed"
        return sorted(json.loads(told.read_text())) if told.exists() else []

    def run_again(self) -> int:
        """Runs what failed when it ran last; the exit code."""
        return subprocess.run(self.command("--last-failed"), check=False).returncode


def say(*words: str) -> None:
    """Writes a line before the next process writes its own."""
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def run(timing: Half, beside: Half) -> dict[Half, int]:
    """Runs both, the second one's output behind the first one's; their exit codes."""
    log = CACHE / "beside.log"
    with log.open("w+") as output:
        process = subprocess.Popen(
            beside.command("--cache-clear"), stdout=output, stderr=subprocess.STDOUT
        )
        try:
            timed = subprocess.run(timing.command("--cache-clear"), check=False)
            codes = {timing: timed.returncode, beside: process.wait()}
        finally:
            process.kill()
    say("== pytest", *beside.arguments)
    say(log.read_text())
    return codes


def main(paths: list[str]) -> int:
    """Runs the tests; the exit code."""
    CACHE.mkdir(exist_ok=True)
    timing = Half("timing", tuple(f"--ignore={path}" for path in paths))
    codes = run(timing, Half("beside", tuple(paths)))
    failing = {half: code for half, code in codes.items() if code != 0}
    unsteady = [test for half in failing for test in half.failed()]
    if not failing:
        return 0
    if any(code != SOME_FAILED for code in failing.values()) or not 0 < len(unsteady) <= FEW:
        return max(failing.values(), key=abs)
    say(f"== pytest, what failed ({len(unsteady)}) once more, alone")
    code = max((half.run_again() for half in failing), key=abs)
    if code == 0:
        say("\n*** UNSTEADY: failed beside others, passed alone; find out why:", *unsteady)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
