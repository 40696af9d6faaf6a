"""Replays become the right cells, the plan knows their trace, and mistakes are reported clearly."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial.errors import StudyError, UsageError
from seatrial.study.cost import cell_time_s, cell_write_bytes, estimate
from seatrial.study.load import load_study
from seatrial.study.override import override
from seatrial.study.plan import make_plan
from seatrial.study.render import render_plan
from seatrial.trials.database.study.cost import SCALE_BYTES, data_bytes
from seatrial.trials.database.study.workloads import LoadSpec, spec_of
from study.builders import plan_of, said, study_of
from trials.replay.study.traces import make_trace, read_raw, read_trace

SERVER = '[[target]]\nkind = "database"\nurl = "postgresql://u@h/db"\n'


def replay(trace: Path | str, more: str = "") -> str:
    return f'[[workload]]\nkind = "replay"\ntrace = "{trace}"\n{more}'


@pytest.fixture(scope="module")
def trace(tmp_path_factory) -> Path:
    return make_trace(tmp_path_factory.mktemp("traces") / "shop.trace")


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> Path:
    return make_trace(tmp_path_factory.mktemp("two") / "two.trace", ("shop", "stock"))


def test_the_usual_is_not_in_the_key(trace):
    (cell,) = plan_of(replay(trace)).cells
    assert cell.key == "replay/statement/trace=shop.trace"
    assert (cell.kind, cell.operation, cell.threads) == ("replay", "statement", 2)
    spec = spec_of(cell.spec)
    assert spec.load == LoadSpec(kind="nothing")
    assert (spec.replay.trace, spec.replay.statements) == (str(trace), 40)
    assert (spec.replay.speed, spec.replay.order, spec.replay.pace) == (None, "session", "arrivals")
    assert spec.replay.captured_s == pytest.approx(3.9, abs=0.01)


def test_every_list_multiplies(trace):
    cells = plan_of(
        replay(trace, 'speed = ["max", 1, 2.5]\norder = ["session", "commit"]\nscale = [1, 2]')
    ).cells
    assert len({cell.key for cell in cells}) == 12
    assert cells[-1].key == "replay/statement/trace=shop.trace/speed=2.5/order=commit/scale=2"


def test_what_is_played_is_reported_to_the_driver(trace):
    more = (
        'speed = 2\npace = "think_times"\nread_only = true\nuntil = 2\nconnections = 7\n'
        'databases = ["shop"]\nallow = ["ddl", "recovery"]\n'
    )
    (cell,) = plan_of(replay(trace, more)).cells
    reported = spec_of(cell.spec).replay
    assert (reported.speed, reported.pace, reported.read_only, reported.until_s) == (
        2.0,
        "think_times",
        True,
        2.0,
    )
    assert (reported.connections_max, reported.databases) == (7, ["shop"])
    assert reported.allow == ["ddl", "recovery"]
    assert cell.threads == 7
    assert cell.spec["limit"]["duration_s"] == pytest.approx(1.0)
    assert "pace=think_times/read_only=true/until=2s/databases=shop/allow=ddl" in cell.key


def test_how_it_is_prepared(trace, tmp_path):
    (pgbench,) = plan_of(replay(trace, "scale = 3")).cells
    assert data_bytes(spec_of(pgbench.spec).load) == 3 * SCALE_BYTES
    dump = tmp_path / "shop.dump"
    dump.write_bytes(bytes(1000))
    folder = tmp_path / "shop.dir"
    folder.mkdir()
    (folder / "toc.dat").write_bytes(bytes(500))
    for name, kind in (("shop.dump", "archive"), ("shop.dir", "archive"), ("shop.sql", "sql")):
        (tmp_path / "shop.sql").write_text("CREATE TABLE t (a int)")
        study = tmp_path / "my.toml"
        study.write_text('name = "s"\n' + replay(trace, f'prepare = "{name}"'))
        (cell,) = make_plan(load_study(str(study))).cells
        assert spec_of(cell.spec).load == LoadSpec(kind=kind, file=str(tmp_path / name))
        assert data_bytes(spec_of(cell.spec).load) > 0


def test_a_database_that_stays_as_it_is_costs_nothing_beforehand(trace):
    plan = plan_of(SERVER + replay(trace, "speed = 1"))
    (cell,) = plan.cells
    assert spec_of(cell.spec).is_standing
    assert cell_time_s(cell) == pytest.approx(3.9, abs=0.01)
    assert 0 < cell_write_bytes(cell) < 2**20
    assert estimate(plan).time_s_min == pytest.approx(3 * 3.9, abs=0.1)
    (loaded,) = plan_of(SERVER + replay(trace, "scale = 1")).cells
    assert not spec_of(loaded.spec).is_standing
    (own,) = plan_of(replay(trace)).cells
    assert not spec_of(own.spec).is_standing
    (reading,) = plan_of(SERVER + replay(trace, "read_only = true")).cells
    assert cell_write_bytes(reading) == 0


def test_the_traces_content_belongs_to_the_plan(tmp_path):
    trace = make_trace(tmp_path / "a.trace")
    text = replay(trace)
    first = plan_of(text).plan_hash
    assert plan_of(text).plan_hash == first
    make_trace(trace, mask=True)
    assert plan_of(text).plan_hash != first


def test_the_plan_says_what_it_knows(trace):
    text = render_plan(plan_of(replay(trace, 'speed = ["max", 1]\nallow = ["ddl"]')))
    assert "until the trace ends" in text
    assert "40 statements of 3.9 s" in " ".join(text.split())
    assert "2 sessions" in text
    assert "speed max, 1" in " ".join(text.split())
    assert "allowed: ddl" in " ".join(text.split())
    assert "IDs mapped to those of the target" in " ".join(text.split())
    restored = render_plan(plan_of(SERVER + replay(trace, 'restore = "./again.sh"')))
    assert "restored before each sample with: ./again.sh" in " ".join(restored.split())
    paced = render_plan(plan_of(replay(trace, "speed = 1")))
    assert "3.9 s" in paced
    assert "until the trace ends" not in paced


def test_stand_ins_are_reported(tmp_path):
    trace = make_trace(tmp_path / "masked.trace", mask=True)
    assert any("values in the trace are masked" in note for note in plan_of(replay(trace)).notes)


def test_what_a_replay_begins_with_is_reported(trace):
    assert any("starts with an empty database" in note for note in plan_of(replay(trace)).notes)
    assert not any("an empty" in note for note in plan_of(replay(trace, "scale = 1")).notes)
    again = "is replayed more than once on a database that is not restored"
    written = plan_of(SERVER + replay(trace, 'allow_writes = "db"')).notes
    assert any(again in note for note in written)
    assert not any("an empty" in note for note in written)
    read = plan_of(SERVER + replay(trace, "read_only = true")).notes
    assert not any(again in note for note in read)


def test_several_databases_and_none_requested(two):
    with pytest.raises(StudyError, match="used 2 databases: ") as caught:
        plan_of(replay(two))
    assert "shop" in str(caught.value)
    assert "stock" in str(caught.value)
    (cell,) = plan_of(replay(two, 'databases = ["stock"]')).cells
    assert spec_of(cell.spec).replay.databases == ["stock"]
    with pytest.raises(StudyError, match=r"No session of two\.trace used database shpo"):
        plan_of(replay(two, 'databases = ["shpo"]'))


def test_a_trace_that_knows_no_databases(tmp_path):
    sql = tmp_path / "plain.sql"
    sql.write_text("SELECT 1;\n" * 20)
    trace = read_raw(sql, tmp_path / "plain.trace")
    (cell,) = plan_of(replay(trace)).cells
    assert spec_of(cell.spec).replay.statements == 20
    with pytest.raises(StudyError, match="does not have the databases"):
        plan_of(replay(trace, 'databases = ["shop"]'))
    paced = plan_of(replay(trace, "speed = 1")).notes
    assert any("SQL without times" in note for note in paced)


def test_a_file_that_is_no_trace(tmp_path):
    path = tmp_path / "no.trace"
    path.write_text("SELECT 1;\n")
    with pytest.raises(UsageError, match=r"no\.trace"):
        plan_of(replay(path))


def test_a_trace_that_is_not_there(tmp_path):
    study = tmp_path / "my.toml"
    study.write_text('name = "s"\n' + replay("absent.trace"))
    with pytest.raises(StudyError, match=r"is 'absent\.trace', but there is no such file"):
        load_study(str(study))
    assert any("does not exist yet" in note for note in plan_of(replay("absent.trace")).notes)


def test_a_trace_without_a_statement_that_can_be_sent(tmp_path):
    trace = make_trace(tmp_path / "copies.trace", ("shop",))
    log = trace.with_suffix(".log")
    log.write_text(log.read_text().replace("SELECT 1", "COPY t FROM STDIN"))
    log.write_text(log.read_text().replace("UPDATE t SET a = 1", "COPY t FROM STDIN"))

    read_trace(log.read_text(), trace)
    with pytest.raises(StudyError, match="None of the 40 statements of the trace"):
        plan_of(replay(trace))


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('allow = ["dll"]', "allow[0] is 'dll'"),
        ("speed = 0", "speed"),
        ('speed = "fast"', "speed"),
        ('order = "commits"', "order"),
        ("clients = 4", "'connections' limits them"),
        ("processes = 2", "one process"),
        ("seconds = 5", "until its trace ends"),
        ('pace = "think_times"', "At speed 'max' statements have no scheduled time"),
        ('prepare = "x.sql"\nscale = 3', "With 'prepare'"),
        ('read_only = true\nallow_writes = "db"', "no writes are sent"),
        ('databases = [""]', "the name of a database"),
        ("rate = 5", "not a key of a replay"),
        ("settings = { trace = 1 }", "is not a server setting"),
        ('read_only = true\nids = ["infer", "off"]', "Reads generate no IDs"),
        ('prepare = "x.sql"\nrestore = "true"', "restores an existing database"),
        ('clone = "template"\nrestore = "true"', "expected one of them"),
        ("restore_seconds = 5", "There is no 'restore'"),
        ('schema = [{ name = "a" }, { name = "a", migrate = "x.sql" }]', "expected another name"),
        ('schema = [{ name = "a", migrate = "x.sh" }]', "Expected a file .sql"),
        ('schema = [{ name = "a/b" }]', "name"),
    ],
)
def test_what_cannot_be_in_a_replay(more, says):
    assert says in said(replay("x.trace", more))


@pytest.mark.parametrize(
    "more",
    [
        'start = "cold"',
        'memory_limit = "1GiB"',
        'clone = "copy"',
        'settings = { work_mem = "1MB" }',
    ],
)
def test_what_a_database_that_stays_as_it_is_cannot_have(more):
    assert "Only the trace may change anything there" in said(SERVER + replay("x.trace", more))


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('start = "prewarmed"', "start unchanged"),
        ('schema = [{ name = "new", migrate = "new.sql" }]', "A migration is permanent"),
    ],
)
def test_what_only_a_database_that_begins_anew_can_have(more, says, trace, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("new.sql").write_text("SELECT 1")
    assert says in said(SERVER + replay(trace, more))
    for anew in ('restore = "true"', 'clone = "template"'):
        (cell,) = plan_of(SERVER + replay(trace, f"{more}\n{anew}")).cells
        assert spec_of(cell.spec).is_standing


def test_a_directory_has_nothing_to_restore(trace):
    directory = '[[target]]\nkind = "directory"\npath = "/tmp"\n'
    assert "not an existing server" in said(directory + replay(trace, 'restore = "true"'))


def test_ids_are_mapped_where_something_is_written(trace):
    (writing,) = plan_of(replay(trace)).cells
    (reading,) = plan_of(replay(trace, "read_only = true")).cells
    assert spec_of(writing.spec).replay.ids == "infer"
    assert spec_of(reading.spec).replay.ids == "off"
    both = plan_of(replay(trace, 'ids = ["infer", "off"]')).cells
    assert [cell.factors.get("ids") for cell in both] == [None, "off"]
    assert [spec_of(cell.spec).replay.ids for cell in both] == ["infer", "off"]


def test_every_order_is_a_cell(trace):
    orders = ["session", "commit", "object", "key", "strict"]
    cells = plan_of(replay(trace, f"order = {orders}")).cells
    assert [spec_of(cell.spec).replay.order for cell in cells] == orders


def test_schemas_are_migrations_of_one_load(trace, tmp_path):
    (tmp_path / "new.sql").write_text("SELECT 1")
    study = tmp_path / "my.toml"
    schemas = '[[workload.schema]]\nname = "old"\n[[workload.schema]]\nname = "new"\n'
    text = f'name = "s"\n{replay(trace, "scale = 1")}\n{schemas}migrate = "new.sql"\n'
    study.write_text(text)
    old, new = make_plan(load_study(str(study))).cells
    assert (old.factors["schema"], new.factors["schema"]) == ("old", "new")
    assert spec_of(old.spec).load == LoadSpec(kind="pgbench", scale=1)
    migrated = spec_of(new.spec).load
    assert migrated.migrate == str(tmp_path / "new.sql")
    assert migrated.unmigrated == spec_of(old.spec).load
    study.write_text(text.replace('"new.sql"', '"other.sql"'))
    with pytest.raises(StudyError, match="no such file"):
        load_study(str(study))


def test_a_length_of_samples_does_not_cut_a_replay(trace):
    study = override(study_of(replay(trace)), seconds=3.0)
    assert study.workloads == study_of(replay(trace)).workloads
