"""The options of ``seatrial sql replay``: what study they make, and what is refused at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command import seatrial
from seatrial.errors import UsageError
from seatrial.trials.replay.commands.read import ReadRequest, read_logs
from seatrial.trials.replay.commands.replay import study_mapping
from trials.replay.study.traces import read_raw

LOG = (
    "2026-11-21 12:00:00.000 UTC [7] me@db LOG:  statement: BEGIN\n"
    "2026-11-21 12:00:00.100 UTC [7] me@db LOG:  statement: UPDATE t SET x = 1 WHERE y = 2\n"
    "2026-11-21 12:00:00.200 UTC [7] me@db LOG:  statement: COMMIT\n"
)
URL = "postgresql://me@localhost:1/db"
OTHER = "postgresql://me@localhost:2/db"
OPTIONS = {
    "addresses": (URL,),
    "speed": "max",
    "order": "session",
    "ids": None,
    "restore": None,
    "compare_rows": None,
    "clone": None,
    "start": None,
    "pace": "arrivals",
    "read_only": False,
    "until_s": None,
    "prepare": None,
    "scale": None,
    "databases": (),
    "connections": None,
    "allow": (),
    "allow_writes": None,
    "rounds": None,
    "pg_bin": None,
}


@pytest.fixture(scope="module")
def trace(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trace")
    (folder / "server.log").write_text(LOG)
    made = folder / "a.trace"
    read_logs(ReadRequest(logs=(folder / "server.log",), output=made), quiet=True)
    return made


def study_of(trace, **options):
    return study_mapping(trace, OPTIONS | options)


def test_a_plain_replay_is_one_workload_and_one_round(trace):
    study = study_of(trace, read_only=True)
    assert study["rounds"] == {"min": 1, "max": 1}
    assert study["target"] == [{"label": "target", "kind": "database", "url": URL}]
    assert study["workload"] == [
        {
            "kind": "replay",
            "trace": str(trace),
            "speed": "max",
            "pace": "arrivals",
            "order": "session",
            "read_only": True,
        }
    ]


def test_every_option_has_its_key(trace, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (target,), (workload,) = (
        study_of(
            trace,
            addresses=(".",),
            speed=2.5,
            order="key",
            ids="off",
            clone="copy",
            start="warm",
            pace="think-times",
            until_s=600.0,
            prepare="prod.dump",
            compare_rows="prod.rows",
            databases=("a", "b"),
            connections=9,
            allow=("ddl",),
            rounds=5,
            pg_bin="bin",
        )[name]
        for name in ("target", "workload")
    )
    assert target == {
        "label": "target",
        "kind": "directory",
        "path": str(tmp_path),
        "pg_bin": "bin",
    }
    del workload["kind"], workload["trace"]
    assert workload == {
        "speed": 2.5,
        "order": "key",
        "ids": "off",
        "clone": "copy",
        "start": "warm",
        "pace": "think_times",
        "until": 600.0,
        "prepare": str(tmp_path / "prod.dump"),
        "compare_rows": str(tmp_path / "prod.rows"),
        "databases": ["a", "b"],
        "connections": 9,
        "allow": ["ddl"],
    }


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prepare": "a.sql", "scale": 1}, "--prepare and --scale are given together"),
        ({"scale": 1, "allow_writes": "db"}, "--allow-writes is given, but"),
        ({"allow_writes": "db", "rounds": 2}, "Several rounds are requested on a database that"),
        ({"allow_writes": "db", "clone": "template"}, "--allow-writes is given, but"),
        ({"scale": 1, "restore": "true"}, "--restore is given, but the replay uses a database"),
        ({"addresses": (".",), "restore": "true"}, "--restore is given, but"),
        ({"addresses": (URL, URL), "allow_writes": "db"}, "(5, the default of several targets)"),
        (
            {"addresses": (URL, OTHER), "allow_writes": "db", "rounds": 1},
            "is replayed 2 times in one round",
        ),
        ({"read_only": True, "pg_bin": "bin"}, "--pg-bin is given with the address of a server"),
    ],
)
def test_what_makes_no_sense_is_refused(trace, options, words):
    with pytest.raises(UsageError, match=words):
        study_of(trace, **options)


def test_several_targets_are_measured_in_turns_and_the_first_once_more(trace, tmp_path):
    for name in ("hdd", "ssd"):
        (tmp_path / name).mkdir()
    study = study_of(trace, addresses=(f"old={tmp_path / 'hdd'}", str(tmp_path / "ssd")), scale=1)
    assert [each["label"] for each in study["target"]] == ["old", "ssd", "old-aa"]
    assert study["target"][0]["path"] == study["target"][2]["path"] == str(tmp_path / "hdd")
    assert study["rounds"] == {"min": 5, "max": 5}


def test_what_begins_anew_may_be_played_again_and_again(trace):
    for anew in ({"restore": "true", "allow_writes": "db"}, {"clone": "template"}):
        study = study_of(trace, rounds=3, **anew)
        assert study["rounds"] == {"min": 3, "max": 3}


def test_a_replay_needs_a_trace(tmp_path):
    with pytest.raises(UsageError, match="seatrial sql read LOG"):
        study_of(tmp_path / "none.trace")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--until", "5x"), "'5x' is not a duration such as 90s, 10m or 1h"),
        (("--speed", "0"), "'0' is not max, or a number above 0 up to 1,000"),
        (("--allow", "all"), "'all' is not one of 'copy_program'"),
        (
            ("--pace", "think-times"),
            "--pace has no effect here. At speed 'max' statements have no scheduled time",
        ),
        (("--database", "nodb"), "No session of a.trace used database nodb"),
    ],
)
def test_options_that_mean_nothing_are_usage_errors(trace, tmp_path, arguments, words):
    ended = seatrial("sql", "replay", trace, "--to", tmp_path, *arguments, folder=tmp_path)
    assert ended.code == 2
    assert words in " ".join(ended.err.split())


def test_a_plan_touches_nothing(trace, tmp_path):
    ended = seatrial(
        *("sql", "replay", trace, "--to", tmp_path, "--scale", "1", "--until", "10m"),
        *("--speed", "2.5", "--order", "commit", "--plan"),
        folder=tmp_path,
    )
    assert ended.code == 0, ended.err
    reported = " ".join(ended.out.split())
    assert "3 statements of 0.2 s; until 10 min of it" in reported
    assert "Nothing was changed" in reported
    assert [path for path in tmp_path.iterdir() if path.name.endswith(".seatrial")] == []


def test_what_is_no_trace_is_refused(tmp_path):
    (tmp_path / "server.log").write_text(LOG)
    ended = seatrial("sql", "replay", "server.log", "--to", tmp_path, folder=tmp_path)
    assert ended.code == 2
    assert "Make a trace of a log with `seatrial sql read LOG... -o FILE`" in ended.err


def test_two_targets_are_played_to_in_turns_and_compared(tmp_path):
    statements = "CREATE TABLE t (id serial PRIMARY KEY, v int);\n"
    statements += "INSERT INTO t (v) VALUES (1);\nSELECT count(*) FROM t;\n" * 30
    (tmp_path / "t.sql").write_text(statements)
    made = read_raw(tmp_path / "t.sql", tmp_path / "t.trace")
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    ended = seatrial(
        *("sql", "replay", made, "--to", tmp_path / "old", "--to", tmp_path / "new"),
        *("--allow", "ddl", "--rounds", "1", "--start", "warm", "--tables"),
        folder=tmp_path,
    )
    assert ended.code == 0, ended.err
    assert ended.out.startswith("old: replay complete; new: replay complete")
    reported = " ".join(ended.out.split())
    for label in ("old", "new", "old-aa"):
        assert f"{label}: 61 of 61 statements were sent, 0 new errors" in reported
    assert "IDs generated during the capture are replaced" in reported
    assert "insert into t(v) values" in reported
    assert "a second measurement of before" in reported
    assert list(tmp_path.glob("seatrial-old-new-*.html"))
