"""A results file that is removed, moved or replaced while a run writes to it loses nothing."""

import os
import shutil

import pytest

from results.builders import make_run, make_sample
from seatrial.errors import ResultsFileError
from seatrial.results.store import ResultsFile

RUN_ID = make_run().id


def remove(path):
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


def move(path):
    path.rename(path.with_name("elsewhere.db"))


def replace(path):
    remove(path)
    path.write_text("somebody's letter")


def remove_folder(path):
    shutil.rmtree(path.parent)


@pytest.mark.parametrize("harm", [remove, move, replace, remove_folder])
@pytest.mark.parametrize("when", ["before a sample", "before the end", "before it is closed"])
def test_all_that_was_measured_is_in_a_new_file(tmp_path, monkeypatch, harm, when):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "results"
    folder.mkdir()
    path = folder / "results.db"
    store = ResultsFile.open(path, create=True)
    store.start_run(make_run())
    store.add_sample(RUN_ID, make_sample(index=0))
    if when == "before a sample":
        harm(path)
    store.add_sample(RUN_ID, make_sample(index=1))
    if when == "before the end":
        harm(path)
    store.finish_run(RUN_ID, "complete", 5.0, {})
    if when == "before it is closed":
        harm(path)
    with pytest.raises(ResultsFileError, match="was removed, moved or replaced") as raised:
        store.close()
    assert raised.value.exit_code == 7
    assert str(store.path) in str(raised.value)
    assert store.path != path
    with ResultsFile.open(store.path, read_only=True) as found:
        assert found.run(RUN_ID).status == "complete"
        assert [sample.round for sample in found.samples(RUN_ID)] == [0, 1]
    if harm is replace:
        assert path.read_text() == "somebody's letter"
    alongside = [each.name for each in store.path.parent.iterdir() if each.is_file()]
    assert not [name for name in alongside if name.startswith(store.path.name) and "-wal" in name]


def test_a_second_loss_is_survived_too(tmp_path):
    path = tmp_path / "results.db"
    store = ResultsFile.open(path, create=True)
    store.start_run(make_run())
    for index in range(3):
        store.add_sample(RUN_ID, make_sample(index=index))
        remove(store.path)
    with pytest.raises(ResultsFileError):
        store.close()
    with ResultsFile.open(store.path, read_only=True) as found:
        assert len(found.samples(RUN_ID)) == 3


def test_a_file_that_is_touched_or_linked_is_still_the_same(tmp_path):
    path = tmp_path / "results.db"
    with ResultsFile.open(path, create=True) as store:
        store.start_run(make_run())
        path.chmod(0o600)
        os.link(path, tmp_path / "second-name.db")
        (tmp_path / "second-name.db").unlink()
        store.add_sample(RUN_ID, make_sample())
    assert [each.name for each in tmp_path.iterdir()] == ["results.db"]


def test_the_first_error_of_a_run_is_reported_with_the_loss(tmp_path):
    def fail():
        with ResultsFile.open(tmp_path / "results.db", create=True) as store:
            store.start_run(make_run())
            remove(store.path)
            raise ValueError("the first")

    with pytest.raises(ValueError, match="the first") as raised:
        fail()
    assert "All its contents" in raised.value.__notes__[0]
