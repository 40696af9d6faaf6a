"""Replays with a playback that sends nothing: its specification, and the use of its answer."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from postgres.programs import installed_programs
from seatrial import _core
from seatrial.errors import RefusedError, StudyError, TargetError
from seatrial.machine.undo_journal import UndoJournal
from seatrial.measure.progress import SilentWatcher
from seatrial.postgres.account import account_for
from seatrial.postgres.cluster import create_cluster
from seatrial.postgres.connection import connect
from seatrial.study.model import PlannedTarget
from seatrial.trials.database.measure import load
from seatrial.trials.database.measure.client_ceiling import client_ceiling
from seatrial.trials.database.measure.existing_database import ExistingDatabase
from seatrial.trials.database.study.workloads import DatabaseSpec, LoadSpec, ReplaySpec
from seatrial.trials.replay.measure import replay_ceiling
from seatrial.trials.replay.measure.replay import ProgressReport, play
from trials.database.measure.trial import trial
from trials.replay.measure.fake_playback import FakePlayback
from trials.replay.study.traces import make_trace

STUDY = """
    name = "replays"
    [[target]]
    label = "here"
    {target}
    [[workload]]
    kind = "replay"
    trace = "{trace}"
    {more}
"""


class Heard(SilentWatcher):
    """Records the progress reported while a cell runs."""

    def __init__(self) -> None:
        self.readings = []
        self.sentences = []

    def step(self, sentence: str) -> None:
        self.sentences.append(sentence)

    def live(self, reading) -> None:
        self.readings.append(reading)


@pytest.fixture(scope="module")
def trace(tmp_path_factory) -> Path:
    return make_trace(tmp_path_factory.mktemp("fake") / "shop.trace")


@pytest.fixture
def played(monkeypatch):
    """Every playback that was started."""
    started = []

    def start(spec_json: str) -> FakePlayback:
        started.append(FakePlayback(spec_json))
        return started[-1]

    monkeypatch.setattr(_core, "start_sql_playback", start, raising=False)
    replay_ceiling._measured.cache_clear()
    return started


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server that is not the trial's own, with a table of somebody's."""
    binaries = installed_programs()
    folder = tmp_path_factory.mktemp("standing")
    data = folder / "data"
    with UndoJournal("standing", folder / "state") as journal:
        cluster = create_cluster(data, binaries, account_for(data, binaries), journal)
        with cluster.start({}) as server:
            with connect(server.address) as connection:
                connection.execute("CREATE DATABASE shop_copy")
            with connect(server.address, dbname="shop_copy") as connection:
                connection.execute("CREATE TABLE t AS SELECT 1 AS a")
            yield server


def study(trace: Path, target: str, more: str = "") -> str:
    return STUDY.format(target=target, trace=trace, more=more)


def there(server, database: str = "shop_copy") -> str:
    address = server.address
    return f'url = "postgresql://{address.user}@/{database}?host={address.host}"'


def databases(server) -> list[str]:
    with connect(server.address) as connection:
        rows = connection.execute("SELECT datname FROM pg_database ORDER BY 1").fetchall()
    return [name for (name,) in rows]


def test_a_replay_on_a_directory_is_a_sample_like_any_other(tmp_path, trace, played):
    place = tmp_path / "here"
    place.mkdir()
    more = 'scale = 1\nspeed = 2\norder = "commit"\nallow = ["ddl"]\nuntil = 60\nconnections = 150'
    with trial(tmp_path, study(trace, f'path = "{place}"', more)) as here:
        sample = here.measure("replay", watcher=(heard := Heard()))
    assert (sample.engine, sample.status) == ("replay", "complete")
    assert sample.outcome.completed == 40
    assert set(sample.operations) == {"select", "update"}
    assert sample.replay.total.captured == 40
    assert sample.replay.total.adds_up
    assert sample.replay.trace["statements"] == "40"
    assert sample.replay.trace["speed"] == "2"
    assert sample.counters["notices"] == 3
    record = sample.database
    assert (record.cloned in ("reflink", "copy"), record.loaded_rows) == (True, 100_011)
    assert record.settings["max_connections"] == "160"
    assert record.client_cpu_share == pytest.approx(0.5)
    (spec,) = [each.spec for each in played if each.spec["speed"]]
    assert (spec["order"], spec["allow"], spec["until_us"]) == ("commit", ["ddl"], 60_000_000)
    assert (spec["server"]["database"], spec["connections_max"]) == ("trial_1", 150)
    assert heard.readings[0].planned == 40


def test_a_directory_without_preparation_is_an_empty_database(tmp_path, trace, played):
    place = tmp_path / "here"
    place.mkdir()
    with trial(tmp_path, study(trace, f'path = "{place}"')) as here:
        sample = here.measure("replay")
    assert sample.database.loaded_rows == 0
    assert sample.replay.end == "complete"


def test_an_archive_of_pg_dump_is_loaded(tmp_path, trace, played, server):
    programs = installed_programs()
    for form in ("custom", "directory", "tar"):
        archive = tmp_path / f"shop.{form}"
        command = [programs.program("pg_dump"), f"--format={form}", "--file", archive]
        environment = server.address.with_dbname("shop_copy").environment()
        subprocess.run(command, env=environment, check=True)
        place = tmp_path / f"here-{form}"
        place.mkdir()
        text = study(trace, f'path = "{place}"', f'prepare = "{archive}"')
        with trial(tmp_path, text) as here:
            assert here.measure("replay").database.loaded_rows == 1


@pytest.mark.parametrize("is_known", [True, False])
def test_data_of_an_archive_have_its_locale(
    tmp_path, trace, played, server, *, is_known, monkeypatch
):
    with connect(server.address) as connection:
        connection.execute("DROP DATABASE IF EXISTS german")
        connection.execute(
            "CREATE DATABASE german TEMPLATE template0 LOCALE 'C.UTF-8' LOCALE_PROVIDER icu"
            " ICU_LOCALE 'de'"
        )
    archive = tmp_path / "german.dump"
    command = [installed_programs().program("pg_dump"), "--format=custom", "--file", archive]
    environment = server.address.with_dbname("german").environment()
    subprocess.run(command, env=environment, check=True)
    if not is_known:
        unknown = "LOCALE_PROVIDER = libc LOCALE = 'tlh_KX'"
        monkeypatch.setattr(load, "locale_options", lambda *_: unknown)
    (tmp_path / "here").mkdir()
    for place in (f'path = "{tmp_path}/here"', there(server, "postgres")):
        with trial(tmp_path, study(trace, place, f'prepare = "{archive}"')) as here:
            record = here.measure("replay").database
        found = (record.locale, record.locale_captured)
        assert found == (("de (icu), UTF8",) * 2 if is_known else ("C, UTF8", "tlh_KX, "))


def test_a_database_of_somebodys_is_left_as_it_is(tmp_path, trace, played, server):
    before = databases(server)
    more = 'allow_writes = "shop_copy"'
    with trial(tmp_path, study(trace, there(server), more)) as here:
        first = here.measure("replay")
        second = here.measure("replay", round_number=1)
        assert databases(server) == before
    assert databases(server) == before
    record = first.database
    assert (record.binaries, record.cloned, record.start_state) == ("remote", "", "as_is")
    assert record.loaded_s is None
    assert [each.spec["server"]["database"] for each in played].count("shop_copy") == 2
    again = "The database contains the writes of previous replays."
    assert again not in record.notes
    assert again in second.database.notes
    with connect(server.address, dbname="shop_copy") as connection:
        names = connection.execute("SELECT extname FROM pg_extension").fetchall()
        tables = connection.execute("SELECT relname FROM pg_stat_user_tables").fetchall()
    assert (names, tables) == ([("plpgsql",)], [("t",)])


@pytest.mark.parametrize(
    ("requested", "refusal"),
    [
        (("shop_copy", ""), (RefusedError, "--allow-writes shop_copy")),
        (("shop_copy", 'allow_writes = "shop"'), (RefusedError, "the given name is shop")),
        (("absent", "read_only = true"), (TargetError, "absent")),
        (("", "read_only = true"), (StudyError, "names no database")),
    ],
)
def test_what_must_not_be_is_said_before_anything_is_sent(
    tmp_path, trace, server, requested, refusal
):
    database, more = requested
    kind, words = refusal
    with (
        pytest.raises(kind, match=words),
        trial(tmp_path, study(trace, there(server, database), more)),
    ):
        raise AssertionError("it was opened")


def test_an_empty_database_is_reported_before_anything_is_sent(tmp_path, trace, played, server):
    with connect(server.address) as connection:
        connection.execute("CREATE DATABASE bare")
    target = PlannedTarget(
        label="bare",
        kind="database",
        path="",
        size_bytes=0,
        drive_bytes=None,
        logical_block_bytes=512,
        direct=True,
        url=f"postgresql://{server.address.user}@/bare?host={server.address.host}",
    )
    own = DatabaseSpec(
        load=LoadSpec(kind="nothing"),
        clients=2,
        start="as_is",
        replay=ReplaySpec(trace=str(trace), read_only=True, is_standing=True),
    )
    database = ExistingDatabase(target, [own], UndoJournal("bare", tmp_path))
    database.check()
    database.prepare(heard := Heard())
    assert any(
        "The database bare had no tables before the replay" in reported
        for reported in heard.sentences
    )
    assert played == []


def test_what_is_loaded_goes_to_a_database_of_our_own(tmp_path, trace, played, server):
    before = databases(server)
    with trial(tmp_path, study(trace, there(server), "scale = 1")) as here:
        sample = here.measure("replay")
    assert databases(server) == before
    assert sample.database.cloned == "template"
    assert all(each.spec["server"]["database"] != "shop_copy" for each in played)


def test_the_logs_own_server_is_found_out(tmp_path, played, server):
    with connect(server.address) as connection:
        query = "SELECT system_identifier::bigint FROM pg_control_system()"
        (number,) = connection.execute(query).fetchone()
    trace = make_trace(tmp_path / "own.trace", system_identifier=number)
    for more in ("read_only = true", 'allow_writes = "shop_copy"', "scale = 1"):
        with (
            pytest.raises(RefusedError, match="the server that wrote the log"),
            trial(tmp_path, study(trace, there(server), more)),
        ):
            raise AssertionError("it was opened")
    assert played == []


def test_an_encrypted_connection_cannot_be_had(tmp_path, trace, played, server):
    target = there(server).removesuffix('"') + '&sslmode=require"'
    with (
        pytest.raises(StudyError, match="requests sslmode=require"),
        trial(tmp_path, study(trace, target, "read_only = true")),
    ):
        raise AssertionError("it was opened")


def test_a_server_that_was_lost_is_a_sample_that_says_so(tmp_path, trace, server, monkeypatch):
    def start(spec_json: str) -> FakePlayback:
        return FakePlayback(spec_json, end="server_lost", words="terminating connection")

    monkeypatch.setattr(_core, "start_sql_playback", start, raising=False)
    with trial(tmp_path, study(trace, there(server), "read_only = true")) as here:
        sample = here.measure("replay")
    assert (sample.replay.end, sample.replay.words) == ("server_lost", "terminating connection")
    assert any("lost: terminating" in note for note in sample.database.notes)


def test_an_interrupt_ends_it_in_order_and_what_ran_is_kept(monkeypatch):
    fake = FakePlayback('{"trace": "x"}', waits=None)

    class Impatient(SilentWatcher):
        def live(self, reading) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(_core, "start_sql_playback", lambda _: fake, raising=False)
    monkeypatch.setattr(fake, "result", lambda: "kept")
    ran = play({"speed": None}, Impatient())
    assert (ran.interrupted, ran.result, fake.stopped) == (True, "kept", 1)


def test_a_trace_that_was_written_anew_is_not_played(tmp_path, trace, played, server):
    own = make_trace(tmp_path / "own.trace")
    with trial(tmp_path, study(own, there(server), "read_only = true")) as here:
        make_trace(own, mask=True)
        with pytest.raises(TargetError, match="is not the planned one"):
            here.measure("replay")


def test_the_ceiling_is_that_of_the_same_trace_and_measured_once(trace, played, monkeypatch):
    monkeypatch.setattr(replay_ceiling, "STATEMENTS_MIN", 10)
    replay = ReplaySpec(trace=str(trace), speed=2.0, order="commit")
    requested = [
        replay_ceiling.replay_ceiling_per_s(replay, connections=2),
        replay_ceiling.replay_ceiling_per_s(replay, connections=2),
    ]
    assert requested == [pytest.approx(400.0)] * 2
    (only,) = played
    assert (only.spec["speed"], only.spec["order"]) == (None, "commit")
    assert only.spec["server"]["database"] == "null"


def test_the_ceiling_of_an_order_by_the_catalogue_is_an_upper_bound(trace, played, monkeypatch):
    monkeypatch.setattr(replay_ceiling, "STATEMENTS_MIN", 10)
    spec = DatabaseSpec(
        load=LoadSpec(kind="nothing"),
        clients=2,
        start="as_is",
        replay=ReplaySpec(trace=str(trace), order="key"),
    )
    found = client_ceiling("replay", spec, installed_programs())
    assert found.per_s == pytest.approx(400.0)
    assert "upper bound" in found.notes[0]
    assert played[0].spec["order"] == "session"


def test_a_short_trace_reports_no_ceiling(trace, played):
    spec = DatabaseSpec(
        load=LoadSpec(kind="nothing"),
        clients=2,
        start="as_is",
        replay=ReplaySpec(trace=str(trace)),
    )
    found = client_ceiling("replay", spec, installed_programs())
    assert found.per_s is None
    assert found.notes == ["The driver's maximum rate is unknown: the trace is too short."]


@pytest.mark.parametrize("is_paced", [False, True])
def test_progress_is_reported_by_what_was_answered_since(is_paced):
    heard = Heard()
    live = ProgressReport(heard, is_paced=is_paced)
    base = {"failed": 0, "skipped": 1, "captured_total": 40, "lag_ns": 5, "open": 1}
    for elapsed_s, answered in ((1.0, 100), (3.0, 100), (4.0, 150)):
        live.report(SimpleNamespace(**base, elapsed_s=elapsed_s, answered=answered))
    assert [reading.iops for reading in heard.readings] == [100.0, 0.0, 50.0]
    quiet_ns = 0 if is_paced else 2_000_000_000
    assert [reading.oldest_in_flight_ns for reading in heard.readings] == [0, quiet_ns, 0]
    assert (heard.readings[-1].done, heard.readings[-1].lag_ns) == (151, 5)
