"""A results file without room for the next sample: nothing is lost, and it says where all is."""

from pathlib import Path

import pytest

from results.builders import make_run, make_sample
from seatrial.errors import FullResultsFileError
from seatrial.results import store as store_module
from seatrial.results.store import ResultsFile, folders_elsewhere

RUN_ID = make_run().id


def opened(path: Path) -> ResultsFile:
    path.parent.mkdir()
    store = ResultsFile.open(path, create=True)
    store.start_run(make_run())
    store.add_sample(RUN_ID, make_sample(index=0))
    return store


def fill(store: ResultsFile) -> None:
    """SQLite finds no room for another page: the error of a full file system."""
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")


def added(store: ResultsFile, stored: int = 1) -> tuple[int, FullResultsFileError]:
    """Add samples until there is no room: how many there are then, and the error of the last."""
    for index in range(stored, 1000):
        try:
            store.add_sample(RUN_ID, make_sample(index=index))
        except FullResultsFileError as error:
            return index + 1, error
    raise AssertionError("it never was full")


@pytest.fixture
def elsewhere(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.setattr(store_module, "folders_elsewhere", lambda _: [tmp_path / "none", folder])
    return folder


def test_the_sample_and_all_before_it_are_in_a_new_file(tmp_path, elsewhere):
    path = tmp_path / "full" / "results.db"
    with opened(path) as store:
        fill(store)
        count, error = added(store)
        assert (error.exit_code, store.path.parent) == (8, elsewhere)
        assert f"No space left on {path.parent}" in error.seen
        assert f"All measured results are in {store.path}" in error.seen
        assert f'--results "{store.path}" --resume' in error.next_step
        assert store.is_moved
        # What comes next goes there, too.
        store.finish_run(RUN_ID, "failed", 5.0, {})
    with ResultsFile.open(store.path, read_only=True) as found:
        assert found.run(RUN_ID).status == "failed"
        assert len(found.samples(RUN_ID)) == count
    with ResultsFile.open(path, read_only=True) as former:
        assert len(former.samples(RUN_ID)) == count - 1, "and the full one is whole"


def test_a_second_full_file_system_is_survived_too(tmp_path, elsewhere):
    with opened(tmp_path / "full" / "results.db") as store:
        fill(store)
        count, _ = added(store)
        first = store.path
        fill(store)
        count, _ = added(store, count)
    assert store.path != first
    with ResultsFile.open(store.path, read_only=True) as found:
        assert len(found.samples(RUN_ID)) == count


def test_where_no_folder_takes_it_that_is_said_and_the_rest_is_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "folders_elsewhere", lambda _: [tmp_path / "none"])
    path = tmp_path / "full" / "results.db"
    with opened(path) as store:
        fill(store)
        count, error = added(store)
        assert "The last sample is lost" in error.seen
        assert "--results" not in error.next_step
        assert (store.path, store.is_moved) == (path, False)
        assert len(store.samples(RUN_ID)) == count - 1
    with ResultsFile.open(path, read_only=True) as found:
        assert len(found.samples(RUN_ID)) == count - 1


def test_a_folder_on_the_same_file_system_is_not_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    same = tmp_path.stat().st_dev
    assert all(each.stat().st_dev != same for each in folders_elsewhere(tmp_path / "results.db"))
