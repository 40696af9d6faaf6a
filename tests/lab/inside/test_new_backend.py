"""docs/how-to-add-a-backend.md: the file that it shows is a backend, from plan to findings."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from seatrial.cli.main import seatrial
from seatrial.machine.guard import inspect
from seatrial.machine.signatures import read_signatures
from seatrial.machine.undo_journal import UndoJournal, clean
from seatrial.results.store import ResultsFile
from seatrial.study.layouts.layout import LayoutSpec, assigned
from seatrial.trials.layouts.build import registry
from seatrial.trials.layouts.build.backends import __path__ as backends_path
from seatrial.trials.layouts.build.build import build, destroy
from seatrial.trials.layouts.build.wrapping import with_wrappers, wrap
from seatrial.units import MIB

RUN = "20261121-074500-3fa2"
NAME = f"seatrial-{RUN}-1"
PAGE = Path(__file__).parents[3] / "docs/how-to-add-a-backend.md"
STUDY = """
name = "behind"
rounds = { min = 1, max = 1 }

[[layout]]
name = "two"
backend = "linear"
level = "single"
drives = 2
member_size = "64MiB"
filesystem = "ext4"
size = "16MiB"

[[workload]]
kind = "io"
operations = "write"
block_sizes = "64KiB"
seconds = 0.3
"""


@pytest.fixture
def linear(tmp_path):
    """The backend of the page, in a file of a folder where backends are looked for."""
    folder = tmp_path / "backends"
    folder.mkdir()
    code = re.search(r"```python\n(\"\"\"linear.*?)```", PAGE.read_text(), re.DOTALL)[1]
    (folder / "linear.py").write_text(code)
    backends_path.append(str(folder))
    forget()
    yield registry.backend("linear")
    backends_path.remove(str(folder))
    sys.modules.pop("seatrial.trials.layouts.build.backends.linear")
    forget()


def forget() -> None:
    for cached in (registry.backends, registry.undoers):
        cached.cache_clear()


def spec_of(**more) -> LayoutSpec:
    usual = {"level": "single", "drives": 2, "filesystem": "ext4", "member_bytes": 64 * MIB}
    return LayoutSpec(label="two", name="two", backend="linear", **usual | more)


def test_the_backend_of_the_page_is_built_broken_and_undone(linear, disks):
    registry.require(spec_of(flaky=True))
    with UndoJournal(RUN) as journal:
        bare = assigned(spec_of(flaky=True), disks[:2])
        who = with_wrappers(bare, wrap(bare.used, spec_of(flaky=True), journal))
        built = build(spec_of(flaky=True), who, NAME, journal)
        room = os.statvfs(built.folders[0])
        assert 96 * MIB < room.f_blocks * room.f_frsize < 128 * MIB
        assert list(linear.describe(built)) == ["byte 0", f"byte {64 * MIB}"]
        assert not linear.state(built, 1).has_failed
        linear.fail(built, 1, 2)
        assert linear.state(built, 1).has_failed
        undone = destroy(built, journal)
        assert [each for each in undone if each.outcome != "undone"] == []
    assert [read_signatures(Path(disk)) for disk in disks[:2]] == [[], []]


def test_what_a_dead_process_built_with_it_is_cleaned(linear, disks, state_dir):
    journal = UndoJournal(RUN)
    build(spec_of(), assigned(spec_of(), disks[:2]), NAME, journal)
    text = journal.path.read_text()
    journal.path.write_text(re.sub(r'"start_ticks":\d+', '"start_ticks":1', text))
    assert {each.outcome for each in clean()} == {"undone"}
    assert sorted(path.name for path in Path("/dev/mapper").iterdir()) == ["control"]
    assert [read_signatures(Path(disk)) for disk in disks[:2]] == [[], []]


def test_a_study_of_it_is_measured(linear, disks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(STUDY)
    named = ",".join(disks[:2])
    words = ",".join(inspect(disk).destroy_word for disk in disks[:2])
    arguments = ["study", "study.toml", "--devices", named, "--destroy", words, "--json"]
    assert seatrial.main(args=arguments, standalone_mode=False) == 0
    with ResultsFile.open(Path("results.seatrial"), read_only=True) as file:
        (run,) = file.runs()
        (sample,) = file.samples(run.id)
    assert sample.layout.layout["backend"] == "linear"
    assert sample.layout.facts["byte 0"] == disks[0]
    assert sample.outcome.completed > 0
