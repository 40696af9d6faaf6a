"""A real server is killed in mid-load: what it acknowledged is there, unless it may lose it."""

from __future__ import annotations

import time
from types import SimpleNamespace

import msgspec
import pytest

from postgres.programs import installed_programs
from seatrial.errors import TargetError
from seatrial.machine.file import TrialFolder
from seatrial.machine.undo_journal import UndoJournal
from seatrial.measure.progress import SilentWatcher
from seatrial.postgres.connection import Address, connect
from seatrial.postgres.server_processes import server_pids
from seatrial.trials.database.measure import crash
from seatrial.trials.database.measure.crash import CrashTrial, read_content
from seatrial.trials.database.measure.crash_ledger import ROWS, rows_of
from seatrial.trials.database.study.workloads import DatabaseSpec, LoadSpec

SECONDS = 1.0


@pytest.fixture
def make_trial(tmp_path, monkeypatch):
    """Give a crash trial with settings of its own; nothing is left of it in the end."""
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(tmp_path / "state"))
    binaries = installed_programs()
    made = []
    with UndoJournal("crash1") as journal:
        folder = TrialFolder(tmp_path, "crash1", journal).open(0, direct=False)

        def make(scale=0, clients=3, **settings):
            load = LoadSpec(kind="ledger", scale=scale)
            spec = DatabaseSpec(load=load, clients=clients, settings=settings, start="warm")
            trial = CrashTrial(
                folder.path, "crash", spec, binaries=binaries, journal=journal, seed=11
            )
            made.append(trial)
            return trial

        yield make
        for trial in made:
            trial.close()
            assert server_pids(trial.data_folder) == []
        assert folder.files() == []


@pytest.mark.parametrize("scale", [0, 2])
def test_nothing_is_lost_when_a_server_is_killed(make_trial, scale):
    trial = make_trial(scale)
    first, second = (trial.crash(SECONDS, SilentWatcher()) for _ in range(2))
    for crashed in (first, second):
        assert crashed.recovered
        assert crashed.verdict.is_ok
        assert crashed.faults in ("", None)
        assert len(crashed.load.answers) > 10
    # The second check covers what the first crash had left.
    assert second.verdict.checked >= first.verdict.checked + len(second.load.answers)
    assert first.settings.get("data_checksums") == "on"
    # Each unit is 16 MB; without it there is little but what every database has.
    assert 16_000_000 * scale < second.database_bytes < 16_000_000 * (scale + 1)


def test_the_rows_that_are_changed_are_those_of_the_whole_scale(make_trial):
    trial = make_trial(scale=2)
    crashed = trial.crash(SECONDS, SilentWatcher())
    assert crashed.verdict.is_ok
    found = read_content(trial._address(trial._server))
    assert max(found.left) > ROWS
    assert max(found.left) <= rows_of(2) == 8000
    assert all(value or changed for value, changed in found.left.values())


def test_without_synchronous_commit_a_kill_loses_what_was_acknowledged(make_trial):
    # The longer the server may wait until it flushes, the surer something is lost.
    trial = make_trial(synchronous_commit="off", wal_writer_delay="2s")
    lost = sum(trial.crash(SECONDS, SilentWatcher()).verdict.lost for _ in range(2))
    assert lost > 0


def test_what_somebody_changes_in_between_is_found(make_trial):
    trial = make_trial()
    trial.crash(SECONDS, SilentWatcher())
    address = trial._address(trial._server)
    with connect(address) as connection:
        connection.execute(
            "DELETE FROM crash_ledger WHERE (worker, sequence) IN"
            " (SELECT worker, sequence FROM crash_ledger LIMIT 1)"
        )
    verdict = trial.crash(SECONDS, SilentWatcher()).verdict
    assert (verdict.lost, verdict.half) == (1, 1)


def test_a_server_that_dies_by_itself_is_no_crash_of_ours(make_trial):
    trial = make_trial()

    class Killer(SilentWatcher):
        """Ends the server as soon as the load is announced."""

        def live(self, _reading) -> None:
            trial._server.kill()

    with pytest.raises(TargetError, match="stopped during the run"):
        trial.crash(20.0, Killer())


def test_tables_that_cannot_be_read_are_an_error_for_a_person(make_trial):
    trial = make_trial()
    address = trial._address(trial._server)
    with connect(address) as connection:
        connection.execute("DROP TABLE crash_left")
    with pytest.raises(TargetError, match="crash_left"):
        read_content(address)


def test_a_database_that_does_not_come_back_has_lost_all(make_trial, monkeypatch):
    trial = make_trial()
    monkeypatch.setattr(trial, "_cluster", _Broken(trial._cluster))
    crashed = trial.crash(SECONDS, SilentWatcher())
    assert not crashed.recovered
    assert crashed.verdict.lost == crashed.verdict.checked > 0
    assert "did not recover: the log is gone" in crashed.notes[-1]


def _fail(*_arguments, **_options):
    raise TargetError(seen="no amcheck", cause="a test", next_step="none")


def test_a_tool_that_fails_loses_nothing(make_trial, monkeypatch):
    trial = make_trial()
    trial._checks_indexes = True
    monkeypatch.setattr(crash, "index_faults", _fail)
    monkeypatch.setattr(crash.ServerSession, "size_bytes", _fail)
    crashed = trial.crash(SECONDS, SilentWatcher())
    assert crashed.recovered
    assert crashed.verdict.is_ok
    assert (crashed.faults, crashed.database_bytes) == (None, 0)
    assert sum("no amcheck" in note for note in crashed.notes) == 2


def test_tables_that_are_not_read_in_time_are_no_verdict(make_trial, monkeypatch):
    trial = make_trial()
    monkeypatch.setattr(crash, "read_content", _fail)
    with pytest.raises(TargetError, match="no amcheck"):
        trial.crash(SECONDS, SilentWatcher())


def test_a_missing_table_is_damage(make_trial, monkeypatch):
    trial = make_trial()
    monkeypatch.setattr(crash, "_LEFT", "SELECT 1 FROM crash_left_gone")
    crashed = trial.crash(SECONDS, SilentWatcher())
    assert not crashed.recovered
    assert crashed.verdict.lost == crashed.verdict.checked > 0


def test_a_database_too_damaged_to_connect_to_has_lost_all(make_trial, monkeypatch):
    trial = make_trial()

    def read_damaged(address):
        with connect(address) as connection:
            path = connection.execute("SELECT pg_relation_filepath('crash_left')").fetchone()[0]
        (trial.data_folder / path).with_name("pg_filenode.map").unlink()
        return read_content(address)

    monkeypatch.setattr(crash, "read_content", read_damaged)
    crashed = trial.crash(SECONDS, SilentWatcher())
    assert not crashed.recovered
    assert crashed.verdict.lost == crashed.verdict.checked > 0
    assert "pg_filenode.map" in crashed.notes[-1]


def test_a_server_that_is_gone_is_no_damage(tmp_path):
    with pytest.raises(TargetError) as caught:
        read_content(Address(host=str(tmp_path), port=5432, user="trial", dbname="trial"))
    assert not isinstance(caught.value, crash.DamagedError)


def test_many_clients_get_their_connections(make_trial):
    trial = make_trial(clients=130)
    assert trial.crash(SECONDS, SilentWatcher()).verdict.is_ok


@pytest.mark.parametrize("kill_at_s", [0.02, 0.3])
def test_a_lying_drive_has_a_content_to_reset_to_after_any_load(make_trial, monkeypatch, kill_at_s):
    trial = make_trial()
    saved = []
    drive = SimpleNamespace(save_content=lambda: saved.append(True))
    monkeypatch.setattr(trial, "_spec", msgspec.structs.replace(trial._spec, power_cut="lying"))
    load = SimpleNamespace(has_ended=False)
    with monkeypatch.context() as patch:
        patch.setattr(trial, "_drive", drive)
        trial._load_until(kill_at_s, time.monotonic(), load, trial._server, SilentWatcher())
    assert saved == [True]


def test_a_refused_connection_is_reported_in_the_server_s_words(make_trial):
    trial = make_trial(clients=20, max_connections="10")
    with pytest.raises(TargetError, match="connections"):
        trial.crash(SECONDS, SilentWatcher())


class _Broken(SimpleNamespace):
    """A cluster whose server does not start any more."""

    def __init__(self, cluster) -> None:
        super().__init__(remove=cluster.remove)

    @staticmethod
    def start(_settings):
        raise TargetError(seen="the log is gone", cause="a test", next_step="none")
