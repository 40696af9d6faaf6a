"""What becomes of the file itself."""

import pytest

from seatrial.results.store import ResultsFile

from .builders import make_run


def fail_after(store: ResultsFile, begin: bool) -> None:
    if begin:
        store.start_run(make_run())
    raise RuntimeError


@pytest.mark.parametrize(("begin", "is_kept"), [(False, False), (True, True)])
def test_a_new_file_stays_only_if_a_run_began(tmp_path, begin, is_kept):
    path = tmp_path / "results.seatrial"
    with pytest.raises(RuntimeError), ResultsFile.open(path, create=True) as store:
        fail_after(store, begin)
    assert path.exists() is is_kept


def test_an_old_file_stays_whatever_happens(tmp_path):
    path = tmp_path / "results.seatrial"
    ResultsFile.open(path, create=True).close()
    with pytest.raises(RuntimeError), ResultsFile.open(path, create=True):
        raise RuntimeError
    assert path.exists()
