"""A run copied from one results file to another is the same run, whole or not at all."""

from __future__ import annotations

import msgspec
import pytest

from results.builders import make_run, make_sample
from seatrial.errors import ResultsFileError, UsageError
from seatrial.results.copying import bring_run, copy_run
from seatrial.results.store import ResultsFile

RUN_ID = make_run().id


@pytest.fixture
def files(tmp_path):
    """A source with one run that was never ended, and a destination with another run."""
    with (
        ResultsFile.open(tmp_path / "from.seatrial", create=True) as source,
        ResultsFile.open(tmp_path / "to.seatrial", create=True) as destination,
    ):
        source.start_run(make_run())
        for number in range(3):
            source.add_sample(RUN_ID, make_sample(index=number))
        destination.start_run(make_run("20261120-000000-0000"))
        yield source, destination


def without_ids(samples):
    return [msgspec.structs.replace(sample, id=0) for sample in samples]


def test_samples_are_the_same(files):
    source, destination = files
    copy_run(source, RUN_ID, destination)
    copied = destination.samples(RUN_ID)
    assert len(copied) == 3
    assert without_ids(copied) == without_ids(source.samples(RUN_ID))


def test_a_run_that_was_killed_is_interrupted(files):
    source, destination = files
    copied = copy_run(source, RUN_ID, destination)
    assert copied.status == "interrupted"
    assert copied == msgspec.structs.replace(make_run(), status="interrupted")


def test_a_run_that_ended_keeps_its_end(files):
    source, destination = files
    source.finish_run(RUN_ID, "complete", 1_795_247_200.0, {})
    assert copy_run(source, RUN_ID, destination) == source.run(RUN_ID)


def test_a_second_copy_is_refused_and_changes_nothing(files):
    source, destination = files
    copy_run(source, RUN_ID, destination)
    source.add_sample(RUN_ID, make_sample(index=7))
    with pytest.raises(ResultsFileError, match="already contains a run"):
        copy_run(source, RUN_ID, destination)
    assert len(destination.samples(RUN_ID)) == 3
    assert len(destination.runs()) == 2


def test_a_run_that_is_not_there(files):
    source, destination = files
    with pytest.raises(UsageError, match="contains no run"):
        copy_run(source, "20990101-000000-ffff", destination)
    assert len(destination.runs()) == 1


def test_a_run_that_is_brought_the_first_time_is_copied(files):
    source, destination = files
    assert bring_run(source, RUN_ID, destination).status == "interrupted"
    assert len(destination.samples(RUN_ID)) == 3


def test_what_a_run_has_gained_since_it_was_handed_over_is_brought(files):
    source, destination = files
    copy_run(source, RUN_ID, destination)
    before = destination.samples(RUN_ID)
    source.add_sample(RUN_ID, make_sample(index=7))
    source.note_target(RUN_ID, "built later", {"stack": []})
    source.finish_run(RUN_ID, "complete", 1_795_247_200.0, {"free_bytes": 5})
    assert bring_run(source, RUN_ID, destination) == source.run(RUN_ID)
    after = destination.samples(RUN_ID)
    assert after[:3] == before
    assert without_ids(after) == without_ids(source.samples(RUN_ID))
    assert bring_run(source, RUN_ID, destination) == source.run(RUN_ID), "it may come again"
    assert destination.samples(RUN_ID) == after
    assert len(destination.runs()) == 2


def test_what_cannot_be_brought_whole_changes_nothing(files, monkeypatch):
    source, destination = files
    copy_run(source, RUN_ID, destination)
    before = destination.run(RUN_ID), destination.samples(RUN_ID)
    source.finish_run(RUN_ID, "complete", 1_795_247_200.0, {})
    second = make_sample(index=7)
    monkeypatch.setattr(source, "samples", lambda _run: [second, second])
    with pytest.raises(ResultsFileError):
        bring_run(source, RUN_ID, destination)
    assert (destination.run(RUN_ID), destination.samples(RUN_ID)) == before
