"""Runs the Python tests from one queue on two workers, and failed ones once more, alone.

    python tools/test/queue_of_tests.py --background "make lint test-rust" tests/stats ...

The paths given contain tests that measure no time and share no device: any worker takes the next of
these files, the longest first. All other files are in one of two lanes, and of each lane one file
runs at a time: a worker runs a lane to its end before it takes others. Those of one lane wait for
throttled devices of their own most of the time, and need little of a processor, so that they leave
the other lane in peace. The duration of each file is kept in ``.cache``; without one, its folder
gives an estimate.

The background command gets the processor time that tests leave (``least_favoured.py``). It may run
tests that only compute, and are left out here (``--without``).

The tests of many hosts come first, alone: the background command compiles while these wait.

The processors are then busy, and a shared machine sometimes loses them for seconds, so that a test
may fail because of load. It is run again, alone, at the end; if it passes then, it is reported as
unsteady, and the cause must be found. More than two unsteady tests fail the run. If many tests
fail, load is not the cause, and nothing is run again.

Exit code: 0 when each test passed, the first time or alone; else pytest's, or 1.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import execnet
import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

CACHE = Path(".cache")
SECONDS = CACHE / "seconds-of-tests.json"
LAST_FAILED = CACHE / "pytest/v/cache/lastfailed"

# Puts a command behind all others that need a processor.
LEAST_FAVOURED = (sys.executable, str(Path(__file__).resolve().with_name("least_favoured.py")))

# A third one was tried four times, the last time with a niceness of its own and without a lane: a
# run of CI was at most 5 % shorter, for the processors are busy, and up to four tests of times
# failed.
WORKERS = 2

# The background command works on when the tests have ended; after so long it hangs.
BACKGROUND_LIMIT_S = 900

# Files that share what is made once, a guest's boot or a cluster, are one entry of the queue.
TOGETHER = ("tests/lab/inside", "tests/fleet")

# A lane of their own: they wait for devices that a control group throttles, for minutes. Pools of
# ZFS, random kills and the guard's tests hold what is mounted when they start, so that no layout is
# mounted then, nor the file system of a resumed run.
THROTTLED = (
    "tests/machine/test_guard.py",
    "tests/machine/test_guard_in_use.py",
    "tests/machine/test_guard_ways.py",
    "tests/machine/test_undo_container.py",
    "tests/measure/test_resume.py",
    "tests/trials/layouts/build",
    "tests/trials/layouts/commands/test_layout_command.py",
    "tests/trials/layouts/measure",
    "tests/kills/test_random_kills.py",
    "tests/trials/cache/test_pool.py",
    "tests/trials/database/measure/test_crash_trial.py",
    "tests/trials/watch/commands/test_headroom.py",
    *(
        f"tests/kernel/test_{name}.py"
        for name in (
            *("audits", "comparisons", "device_errors", "full_disks", "hang_is_live"),
            *("load_lines", "plan_closed_loop", "power_cut", "power_cut_database"),
            *("preconditioning", "steady_states"),
        )
    ),
)

# Hosts of a lab hold whatever is mounted when they start: nothing else may be mounted then. These
# also measure what hosts reach together, and start for half a minute.
ALONE = ("tests/fleet",)

# A worker that is interrupted in a test removes what the test made, such as mounts and labs.
CLEAN_UP_S = 20

# A test's length where nothing is known yet, by its folder.
ROUGH_S = {
    "tests/lab/inside": 4.0,
    "tests/fleet": 9.0,
    "tests/kernel": 4.0,
    "tests/bench": 2.0,
    "tests/measure": 1.0,
    "tests/trials/database/measure": 1.0,
    "tests/trials/layouts": 0.5,
    "tests/trials/replay": 0.5,
    "tests/cli": 0.3,
    "tests/trials/io/commands": 0.3,
    "tests/trials/loadline/commands": 0.3,
    "tests/trials/audit/commands": 0.3,
    "tests/trials/database/commands": 0.3,
    "tests": 0.1,
}

# What to look at first where the whole takes too long.
SLOWEST = ("--durations=20", "--durations-min=10")

# So many failures may be the machine's; more are the change's.
RUN_AGAIN_MAX = 10
UNSTEADY_MAX = 2

# pytest's own exit code for "tests ran, and some failed"; any other one is not a matter of a test.
SOME_FAILED = 1


def within(test: str, folders: Iterable[str]) -> str | None:
    """The first of the files or folders that a test lies in."""
    return next((each for each in folders if test.startswith((f"{each}/", f"{each}::"))), None)


def entry_of(test: str) -> str:
    """The entry of the queue that a test belongs to: its file, or a folder of files."""
    return within(test, TOGETHER) or test.split("::", 1)[0]


class Queue(LoadFileScheduling):
    """Hands files to workers: those of a lane to one of them, all others to each."""

    def __init__(
        self, config: pytest.Config, log: object, concurrent: list[str], seconds: dict[str, float]
    ) -> None:
        super().__init__(config, log)
        self._concurrent = concurrent
        self._seconds = seconds
        self._worker_of: dict[str, WorkerController] = {}

    def _split_scope(self, nodeid: str) -> str:
        return entry_of(nodeid)

    def _length_s(self, entry: str) -> float:
        tests = self.workqueue[entry]
        rough_s = ROUGH_S.get(within(f"{entry}::", ROUGH_S) or "tests", 0.0)
        return self._seconds.get(entry, rough_s * len(tests))

    def _lane_of(self, entry: str) -> str:
        """The lane of an entry; empty for one that may run with any other."""
        if within(f"{entry}::", self._concurrent):
            return ""
        return "throttled" if within(f"{entry}::", THROTTLED) else "timed"

    def _lane_for(self, worker: WorkerController, waiting: dict[str, list[str]]) -> str:
        """The lane that a worker runs, or begins: the longest that no other one runs."""
        others = {
            lane
            for lane, of in self._worker_of.items()
            if of is not worker and of in self.assigned_work
        }
        mine = [lane for lane in waiting if lane and lane not in others]
        begun = [lane for lane in mine if self._worker_of.get(lane) is worker]
        lengths_s = {lane: sum(map(self._length_s, waiting[lane])) for lane in begun or mine}
        return max(lengths_s, key=lambda lane: (lengths_s[lane], lane), default="")

    def _next(self, worker: WorkerController) -> str | None:
        """The longest entry that a worker may take, of its lane if that is not at its end."""
        waiting: dict[str, list[str]] = {}
        for entry in self.workqueue:
            waiting.setdefault(self._lane_of(entry), []).append(entry)
        if lane := self._lane_for(worker, waiting):
            self._worker_of[lane] = worker
        entries = waiting.get(lane, [])
        return max(entries, key=lambda entry: (self._length_s(entry), entry), default=None)

    def _assign_work_unit(self, node: WorkerController) -> None:
        entry = self._next(node)
        if entry is None:
            node.shutdown()
            return
        self.workqueue.move_to_end(entry, last=False)
        super()._assign_work_unit(node)


class Plugin:
    """Gives pytest the queue; keeps how long each file took."""

    def __init__(self, concurrent: list[str]) -> None:
        self._concurrent = concurrent
        self._known_s = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
        self._taken_s: Counter[str] = Counter()
        self._workers_s: Counter[str] = Counter()
        self._workers: list[WorkerController] = []

    def pytest_configure_node(self, node: WorkerController) -> None:
        """Note a worker."""
        self._workers.append(node)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Interrupt the workers of an interrupted run before xdist kills them."""
        if exitstatus != pytest.ExitCode.INTERRUPTED:
            return
        for worker in self._workers:
            worker.gateway._io.popen.terminate()
        give_up_at_s = time.monotonic() + CLEAN_UP_S
        for worker in self._workers:
            with suppress(execnet.TimeoutError, execnet.RemoteError, EOFError, OSError):
                worker.channel.waitclose(max(0.0, give_up_at_s - time.monotonic()))

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: object) -> Queue:
        """The queue."""
        return Queue(config, log, self._concurrent, self._known_s)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test; name it at once if it failed, for a run may be ended."""
        if report.failed:
            say(f"\nFAILED {report.nodeid}")
        self._taken_s[entry_of(report.nodeid)] += report.duration
        self._workers_s[getattr(report, "worker_id", "")] += report.duration

    def keep(self) -> str:
        """Write the lengths for the next run; how long each worker was busy."""
        lengths = self._known_s | {entry: round(s, 1) for entry, s in self._taken_s.items()}
        SECONDS.write_text(json.dumps(lengths, indent=1, sort_keys=True))
        return ", ".join(f"{name} {s:.0f} s" for name, s in sorted(self._workers_s.items()))


def options() -> list[str]:
    """What all runs of pytest share."""
    return ["-o", f"cache_dir={CACHE / 'pytest'}", *SLOWEST]


def run(concurrent: list[str], without: list[str]) -> int:
    """Runs all tests but those of some paths; pytest's exit code."""
    plugin = Plugin(concurrent)
    # Workers look for modules where `python -m pytest` does.
    sys.path[0] = str(Path.cwd())
    queue = [f"--numprocesses={WORKERS}", "--max-worker-restart=0"]
    queue += [f"--ignore={each}" for each in (*ALONE, *without)]
    code = pytest.main([*options(), *queue], plugins=[plugin])
    say("Workers were busy for:", plugin.keep())
    return int(code)


def run_apart(arguments: list[str]) -> int:
    """Runs pytest in a process of its own, which is interrupted with this one; its exit code."""
    process = subprocess.Popen([sys.executable, "-m", "pytest", *options(), *arguments])
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(CLEAN_UP_S)
        process.kill()
        raise


def run_alone() -> int:
    """Runs what nothing else may run with; pytest's exit code."""
    if not (present := [each for each in ALONE if Path(each).exists()]):
        return 0
    say("== pytest, alone:", *present)
    return run_apart(present)


def failed() -> list[str]:
    """The tests that failed when they ran last."""
    return sorted(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []


def run_again(tests: list[str]) -> int:
    """Runs what failed, alone; names what passes now. Returns the exit code."""
    say(f"== pytest, what failed ({len(tests)}) once more, alone")
    code = run_apart(["--last-failed"])
    unsteady = sorted(set(tests) - set(failed())) if code in (0, SOME_FAILED) else []
    if unsteady:
        say("\n*** UNSTEADY: failed in a concurrent run, passed alone; find out why:", *unsteady)
    if len(unsteady) > UNSTEADY_MAX:
        say(f"*** {len(unsteady)} unsteady tests; at most {UNSTEADY_MAX} are let pass")
        return code or SOME_FAILED
    return code


def say(*words: str) -> None:
    """Writes a line before the next process writes its own."""
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


class Background:
    """A command that runs while tests wait; its output comes when it has ended."""

    def __init__(self, command: str) -> None:
        self._begun_s = time.monotonic()
        self._command = command
        self._log = (CACHE / "background.log").open("w+")
        self._process = subprocess.Popen(
            [*LEAST_FAVOURED, *shlex.split(command)],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def end(self) -> int:
        """Wait for it and show its output; its exit code, 1 where it hangs."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(BACKGROUND_LIMIT_S)
        return self.stop()

    def stop(self) -> int:
        """Show its output, and the processes of one that still runs, which end. Its exit code."""
        code = self._process.poll()
        if code is None:
            session = str(self._process.pid)
            listing = ["ps", "--forest", "-o", "pid,stat,etime,time,wchan:20,args", "-s", session]
            say("\n*** ENDED before it was done, with these processes:")
            subprocess.run(listing, check=False)
            os.killpg(self._process.pid, signal.SIGTERM)  # its session's leader
            self._process.wait()
        self._log.seek(0)
        say(self._log.read().rstrip())
        say(f"{self._command}: exit code {code}, {time.monotonic() - self._begun_s:.0f} s")
        self._log.close()
        return SOME_FAILED if code is None else code


def main(arguments: list[str]) -> int:
    """Runs the tests; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--background", help="a command to run at the same time")
    parser.add_argument(
        "--without", action="append", default=[], help="a file or folder that the background runs"
    )
    parser.add_argument("paths", nargs="*", help="files and folders that any worker may take")
    reported = parser.parse_args(arguments)
    CACHE.mkdir(exist_ok=True)
    LAST_FAILED.unlink(missing_ok=True)
    background = Background(reported.background) if reported.background else None
    try:
        code = run_alone()
        if code in (0, SOME_FAILED):
            code = max(code, run(reported.paths, reported.without))
        if code == pytest.ExitCode.INTERRUPTED:
            other = background.stop() if background else 0
        else:
            other = background.end() if background else 0
    except BaseException:
        if background:
            background.stop()
        raise
    if code == SOME_FAILED and 0 < len(tests := failed()) <= RUN_AGAIN_MAX:
        code = run_again(tests)
    return code or other


if __name__ == "__main__":
    # A background job of a script ignores an interrupt, and nothing would end. A time limit that
    # ends the run shows what it hung in.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
