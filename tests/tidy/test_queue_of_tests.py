"""The queue of tests: what fails always fails, what fails once is named, the lane is one file's."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tidy.sources import ROOT

RUNNER = ROOT / "tools/test/queue_of_tests.py"

PASSES = "def test_it():\n    pass\n"
FAILS = "def test_it():\n    assert False\n"
FAILS_ONCE = """
from pathlib import Path

def test_it():
    been = Path(__file__).with_suffix(".been.it")
    was_here = been.exists()
    been.touch()
    assert was_here
"""
SLEEPS = """
import os, time
from pathlib import Path

def test_it():
    begun_s = time.monotonic()
    time.sleep({seconds})
    noted = f"{{os.environ['PYTEST_XDIST_WORKER']}} {{begun_s}} {{time.monotonic()}}"
    Path(__file__).with_suffix(".noted").write_text(noted)
"""


def run(folder: Path, *options: str, **tests: str) -> tuple[int, str]:
    """Exit code and output of these files; those named ``free...`` may run with any other."""
    for name, text in tests.items():
        (folder / f"test_{name}.py").write_text(text)
    free = [f"test_{name}.py" for name in tests if name.startswith("free")]
    process = start(folder, *options, *free)
    said, _ = process.communicate()
    return process.returncode, said


def start(folder: Path, *arguments: str, **how: Any) -> subprocess.Popen[str]:
    """Start the queue in a folder of tests."""
    # This test is itself one of a queue. Plugins that these tests need not take time to load.
    environment = {key: os.environ[key] for key in os.environ if not key.startswith("PYTEST")}
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
    return subprocess.Popen(
        [sys.executable, RUNNER, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **how,
    )


def many(count: int) -> str:
    """So many tests that fail the first time."""
    each = (FAILS_ONCE.replace("_it", f"_{number}") for number in range(count))
    return "".join(text.replace(".been.it", f".been.{place}") for place, text in enumerate(each))


def test_what_passes_passes_and_is_run_once(tmp_path: Path) -> None:
    code, said = run(tmp_path, lane=PASSES, free=PASSES)
    assert (code, said.count("2 passed")) == (0, 1), said
    assert "once more" not in said


def test_what_fails_twice_fails(tmp_path: Path) -> None:
    code, said = run(tmp_path, lane=FAILS, free=FAILS)
    assert (code, said.count("2 failed")) == (1, 2), said
    assert "UNSTEADY" not in said


def test_what_fails_always_is_not_hidden_by_what_fails_once(tmp_path: Path) -> None:
    code, said = run(tmp_path, lane=FAILS_ONCE, free=FAILS)
    assert code == 1, said
    (line,) = (line for line in said.splitlines() if "UNSTEADY" in line)
    assert "test_lane.py::test_it" in line
    assert "test_free.py" not in line


def test_two_unsteady_tests_are_named_and_pass(tmp_path: Path) -> None:
    code, said = run(tmp_path, lane=FAILS_ONCE, free=FAILS_ONCE)
    assert code == 0, said
    (line,) = (line for line in said.splitlines() if "UNSTEADY" in line)
    assert line.endswith(": test_free.py::test_it test_lane.py::test_it")


def test_three_unsteady_tests_are_named_and_fail(tmp_path: Path) -> None:
    code, said = run(tmp_path, lane=many(3), free=PASSES)
    assert code == 1, said
    (line,) = (line for line in said.splitlines() if "UNSTEADY" in line)
    assert line.count("::") == 3
    assert "3 unsteady tests" in said


def test_many_failures_are_not_run_again(tmp_path: Path) -> None:
    code, said = run(tmp_path, lane=many(11), free=PASSES)
    assert (code, said.count("11 failed")) == (1, 1), said
    assert "once more" not in said


def test_what_cannot_be_collected_fails_and_is_not_unsteady(tmp_path: Path) -> None:
    code, said = run(tmp_path, lane="import nothing_of_that_name\n", free=PASSES)
    assert code != 0, said
    assert "UNSTEADY" not in said


def test_a_worker_that_dies_ends_the_run_and_its_test_is_named(tmp_path: Path) -> None:
    dies = "import os\n\ndef test_it():\n    os._exit(3)\n"
    code, said = run(tmp_path, lane=dies, lane2=PASSES, free=PASSES)
    assert code != 0, said
    assert "crashed while running 'test_lane.py::test_it'" in said
    assert "UNSTEADY" not in said


def test_files_of_the_lane_run_one_after_the_other_and_the_rest_concurrently(
    tmp_path: Path,
) -> None:
    lanes = {f"lane{number}": SLEEPS.format(seconds=0.3) for number in range(3)}
    code, said = run(tmp_path, **lanes, free=SLEEPS.format(seconds=0.1))
    assert code == 0, said
    reported = {path.stem: path.read_text().split() for path in tmp_path.glob("*.noted")}
    free = reported.pop("test_free")
    assert len({worker for worker, *_ in reported.values()} | {free[0]}) == 2, reported
    spans = sorted((float(begun), float(ended)) for _, begun, ended in reported.values())
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def test_what_waits_for_throttled_devices_has_a_lane_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "tests/kernel"
    folder.mkdir(parents=True)
    for name in ("audits", "load_lines"):
        (folder / f"test_{name}.py").write_text(SLEEPS.format(seconds=0.4))
    lanes = {f"lane{number}": SLEEPS.format(seconds=0.4) for number in range(2)}
    code, said = run(tmp_path, **lanes, free=SLEEPS.format(seconds=0.1))
    assert code == 0, said
    workers = {path.stem: path.read_text().split()[0] for path in tmp_path.rglob("*.noted")}
    throttled = {workers["test_audits"], workers["test_load_lines"]}
    timed = {workers["test_lane0"], workers["test_lane1"]}
    assert len(throttled) == len(timed) == 1, workers
    assert throttled != timed, workers


def test_the_background_command_has_the_least_weight_in_a_session_of_its_own(
    tmp_path: Path,
) -> None:
    shown = "import os; print('niceness', os.nice(0), os.getsid(0) == os.getpid())"
    shown += "; print('group', open('/proc/self/autogroup').read())"
    code, said = run(tmp_path, "--background", f'{sys.executable} -c "{shown}"', lane=PASSES)
    assert "niceness 19 True" in said
    if Path("/proc/self/autogroup").exists():
        assert code == 0, said
        assert re.search("group .*nice 19", said), said


INTERRUPTS = """
import os, time
from pathlib import Path

def test_it():
    while not Path("pid").exists() or not Path("pid").read_text():
        time.sleep(0.05)
    os.kill(os.getppid(), 2)
    time.sleep(60)
"""


CLEANS_UP = """
import os, time
from pathlib import Path
import pytest

HERE = Path(__file__)

@pytest.fixture
def made():
    HERE.with_suffix(".made").touch()
    yield
    HERE.with_suffix(".cleaning").touch()
    time.sleep(6)
    HERE.with_suffix(".made").unlink()

def test_it(made):
    time.sleep(60)
"""


@pytest.mark.parametrize(
    ("folder", "number", "goes_to_all"),
    [
        (".", signal.SIGINT, False),
        (".", signal.SIGTERM, True),
        ("tests/fleet", signal.SIGINT, False),
    ],
)
def test_tests_remove_what_they_made_when_their_run_is_interrupted(
    tmp_path: Path, folder: str, number: int, goes_to_all: bool
) -> None:
    """Those of workers, and those that run alone, for longer than xdist waits; only once."""
    shutil.copy(ROOT / "tests/conftest.py", tmp_path)
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    names = ("a",) if folder != "." else ("a", "free")
    for name in names:
        (tmp_path / folder / f"test_{name}.py").write_text(CLEANS_UP)
    process = start(tmp_path, "test_free.py", start_new_session=True)
    for reached in ("made", "cleaning") if goes_to_all else ("made",):
        give_up_at_s = time.monotonic() + 40
        while len(list(tmp_path.rglob(f"*.{reached}"))) < len(names):
            assert time.monotonic() < give_up_at_s
            time.sleep(0.1)
        (os.killpg if goes_to_all else os.kill)(process.pid, number)
    said, _ = process.communicate(timeout=40)
    assert process.returncode != 0
    assert list(tmp_path.rglob("*.made")) == [], said


def wait_for_end(process: str) -> None:
    """Wait until a process has ended, whoever collects its exit code."""
    state = Path(f"/proc/{process}/status")
    give_up_at_s = time.monotonic() + 20
    while state.exists() and "zombie" not in state.read_text():
        assert time.monotonic() < give_up_at_s
        time.sleep(0.05)


def test_an_interrupted_run_ends_its_background_command(tmp_path: Path) -> None:
    run(tmp_path, "--background", "sh -c 'sleep 600 & echo $! > pid; wait'", lane=INTERRUPTS)
    wait_for_end((tmp_path / "pid").read_text().strip())


def test_a_time_limit_shows_what_the_background_command_hung_in(tmp_path: Path) -> None:
    hangs = "sh -c 'echo linted; until [ -e test_lane.noted ]; do sleep 0.1; done; sleep 1; "
    hangs += "kill -TERM $PPID; sleep 600'"
    code, said = run(tmp_path, "--background", hangs, lane=SLEEPS.format(seconds=0))
    assert code != 0
    assert "linted" in said
    (hung,) = [line for line in said.splitlines() if line.rstrip().endswith("sleep 600")]
    wait_for_end(hung.split()[0])


def test_the_longest_is_first_by_what_it_took_before(tmp_path: Path) -> None:
    lanes = {f"lane{number}": SLEEPS.format(seconds=number / 4) for number in range(1, 4)}
    assert run(tmp_path, **lanes)[0] == 0
    kept = json.loads((tmp_path / ".cache/seconds-of-tests.json").read_text())
    assert sorted(kept, key=kept.__getitem__) == [f"test_lane{number}.py" for number in (1, 2, 3)]
    assert run(tmp_path, **lanes)[0] == 0
    begun_s = {path.stem: float(path.read_text().split()[1]) for path in tmp_path.glob("*.noted")}
    assert sorted(begun_s, key=begun_s.__getitem__) == ["test_lane3", "test_lane2", "test_lane1"]


def test_a_background_command_is_shown_and_its_failure_fails(tmp_path: Path) -> None:
    code, said = run(
        tmp_path, "--background", "sh -c 'echo linted; exit 4'", lane=PASSES, free=PASSES
    )
    assert code == 4, said
    assert "linted" in said


def test_what_the_background_runs_is_not_run_twice(tmp_path: Path) -> None:
    code, said = run(tmp_path, "--without=test_lane.py", lane=FAILS, free=PASSES)
    assert (code, said.count("1 passed")) == (0, 1), said
    assert "test_lane" not in said


HURRIES = re.compile(r"cli\.command|cli\.terminal|monotonic|timeout\w*=|mark\.(?:root|browser)")
"""What needs an answer in time, or more than a processor."""


def test_what_only_computes_waits_for_nothing() -> None:
    make = ["make", "--no-print-directory", "--dry-run", "test-leisurely"]
    said = subprocess.run(make, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = [ROOT / word for word in said.split() if word.startswith("tests/")]
    files = [file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])]
    assert len(files) > 100
    hurried = [file for file in files if HURRIES.search(file.read_text())]
    assert hurried == []
