"""What becomes of the file itself."""

import os
import signal
import subprocess
import sys
import textwrap

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


KILLED_WHILE_IT_IS_MADE = """
    import os, signal, sqlite3, sys
    from seatrial.results import schema
    from seatrial.results.store import ResultsFile

    def killed(connection):
        os.kill(os.getpid(), signal.SIGKILL)

    schema.migrate = killed
    ResultsFile.open(sys.argv[1], create=True)
"""


def test_a_kill_while_a_file_is_made_leaves_none(tmp_path):
    """An empty file, as SQLite makes first, would be refused by the next command."""
    path = tmp_path / "results.seatrial"
    code = textwrap.dedent(KILLED_WHILE_IT_IS_MADE)
    done = subprocess.run([sys.executable, "-c", code, path], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not list(tmp_path.iterdir())


KILLED_BEFORE_SQLITE_OPENS_IT = """
    import os, signal, sys
    from seatrial.results import opening
    from seatrial.results.store import ResultsFile

    def killed(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    opening._connect = killed
    ResultsFile.open(sys.argv[1], create=True)
"""


def test_a_new_file_is_whole_before_sqlite_opens_it(tmp_path):
    path = tmp_path / "results.seatrial"
    code = textwrap.dedent(KILLED_BEFORE_SQLITE_OPENS_IT)
    done = subprocess.run([sys.executable, "-c", code, path], check=False)
    assert done.returncode == -signal.SIGKILL
    with ResultsFile.open(path, read_only=True) as store:
        assert not store.runs()


def test_a_new_file_is_as_sqlite_would_have_made_it(tmp_path):
    path = tmp_path / "results.seatrial"
    with ResultsFile.open(path, create=True) as store:
        store.start_run(make_run())
    with ResultsFile.open(path, read_only=True) as store:
        assert [run.id for run in store.runs()] == [make_run().id]
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask()


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
