"""``seatrial db``: from options to a study, on a directory and on a server, and what is refused."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import click
import pytest

from cli.command import seatrial
from cli.test_bad_input import assert_refused
from postgres.programs import installed_programs
from seatrial import _core
from seatrial.cli.options import without_password
from seatrial.cli.study_command import plan_of
from seatrial.errors import TargetError, UsageError
from seatrial.machine.undo_journal import UndoJournal
from seatrial.postgres.account import account_for
from seatrial.postgres.cluster import create_cluster
from seatrial.postgres.connection import connect
from seatrial.study.load import study_from_options
from seatrial.trials.database import commands as db_command
from seatrial.trials.database import commands as db_study
from seatrial.trials.database.commands import study_mapping, trial_targets

RIGHT, WRONG = "c0rrect-h0rse", "wr0ng-battery"
SHORT = ("--scale", "1", "--clients", "2", "--seconds", "1", "--rounds", "1", "--no-aa")


@pytest.fixture(autouse=True)
def _memory_can_be_limited(monkeypatch):
    monkeypatch.setattr("seatrial.postgres.memory.limit_obstacle", lambda: "")


@pytest.fixture
def place(tmp_path) -> Path:
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


def mapping(*arguments):
    """Return the study that a command line makes."""
    context = db_command.command.make_context("db", [str(argument) for argument in arguments])
    options = dict(context.params)
    named = (options["directories"], options["urls"])
    found = study_mapping(trial_targets(*named, again=options["again"]), options)
    study_from_options(found, db_study.KEY_OPTIONS)  # a study that holds
    return found


def workload(*arguments):
    return mapping(*arguments)["workload"][-1]


class TestOptions:
    def test_the_quick_trial_is_of_a_database_beyond_its_memory(self, place):
        study = mapping(place)
        assert [target["label"] for target in study["target"]] == ["trial"]
        own = study["workload"][-1]
        assert (own["kind"], own["memory_limit"], own["clients"]) == ("pgbench", "256MiB", [1, 10])
        assert own["scale"] * 16_000_000 > 256 << 20
        assert study["budget"]["time_s"] < 180

    def test_without_a_right_to_limit_memory_there_is_no_limit(self, place, monkeypatch):
        monkeypatch.setattr("seatrial.postgres.memory.limit_obstacle", lambda: "no")
        assert "memory_limit" not in workload(place)

    def test_whoever_gives_a_scale_has_the_studys_defaults(self, place):
        study = mapping(place, "--scale", "10,100")
        assert study["workload"][-1] == {"kind": "pgbench", "scale": [10, 100]}
        assert study["budget"] == {}

    def test_lists_are_factors(self, place):
        own = workload(
            place,
            *("--scale", "10,100", "--clients", "1,10", "--processes", "1,2", "--rate", "100,200"),
            *("--script", "tpcb-like,select-only", "--protocol", "simple,prepared"),
            *("--start", "cold,prewarmed", "--memory-limit", "256MiB,1GiB", "--seconds", "5"),
            *("--set", "shared_buffers=64MB,128MB", "--set", "fsync=on"),
        )
        assert own == {
            "kind": "pgbench",
            "scale": [10, 100],
            "clients": [1, 10],
            "processes": [1, 2],
            "rate": [100.0, 200.0],
            "scripts": ["tpcb-like", "select-only"],
            "protocols": ["simple", "prepared"],
            "start": ["cold", "prewarmed"],
            "memory_limit": ["256MiB", "1GiB"],
            "seconds": 5.0,
            "settings": {"shared_buffers": ["64MB", "128MB"], "fsync": ["on"]},
        }

    def test_a_setting_in_quotes_keeps_its_commas(self, place):
        own = workload(place, "--set", "shared_preload_libraries='pg_prewarm,auto_explain'")
        assert own["settings"] == {"shared_preload_libraries": ["pg_prewarm,auto_explain"]}

    def test_several_directories_have_their_names_and_a_control(self, tmp_path):
        for name in ("hdd", "other/hdd", "ssd"):
            (tmp_path / name).mkdir(parents=True)
        study = mapping(tmp_path / "hdd", tmp_path / "other/hdd", f"fast={tmp_path}/ssd")
        labels = [target["label"] for target in study["target"]]
        assert labels == ["hdd", "hdd-2", "fast", "hdd-aa"]
        assert study["target"][-1]["path"] == study["target"][0]["path"]
        truth = study["workload"][0]
        assert truth["targets"] == ["hdd", "hdd-2", "fast"]

    def test_no_control_where_none_is_wanted(self, tmp_path):
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        study = mapping(tmp_path / "a", tmp_path / "b", "--no-aa")
        assert [target["label"] for target in study["target"]] == ["a", "b"]
        alone = mapping(tmp_path / "a", "--aa")
        assert [target["label"] for target in alone["target"]] == ["trial", "trial-aa"]

    def test_commit_truth_writes_the_same_with_a_flush_and_without(self, place):
        commit, write, _ = mapping(place)["workload"]
        assert (commit["kind"], commit["methods"], commit["committers"]) == (
            "commit",
            ["fdatasync"],
            [1],
        )
        assert (write["kind"], write["pattern"]) == ("io", "sequential")
        assert commit["size"] == write["block_sizes"]
        assert 3 * (commit["seconds"] + write["seconds"]) < 3
        assert len(mapping(place, "--no-commit-truth")["workload"]) == 1

    def test_crashes_are_rounds(self, place):
        assert workload(place, "--crash=7", "--scale", "2,20")["scale"] == [2, 20]
        study = mapping(place, "--crash=7", "--power-cut", "--set", "fsync=off")
        assert study["rounds"] == {"min": 7, "max": 7}
        (own,) = study["workload"]
        assert (own["kind"], own["power_cut"], own["settings"]) == (
            "crash",
            "honest",
            {"fsync": ["off"]},
        )

    def test_telemetry_and_batch(self, place, tmp_path):
        own = workload(place, "--workload", "telemetry", "--devices", "10,20", "--query-share", 0.2)
        assert own == {"kind": "telemetry", "devices": [10, 20], "query_share": 0.2}
        (tmp_path / "nightly.sql").write_text("SELECT 1;")
        own = workload(place, "--batch", tmp_path / "nightly.sql", "--scale", "1")
        assert own == {"kind": "batch", "file": str(tmp_path / "nightly.sql"), "scale": [1]}

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("--devices", "10"), "--devices has no effect on a trial of kind pgbench"),
            (("--workload", "telemetry", "--scale", "3"), "--scale has no effect"),
            (("--power-cut",), "--power-cut has no effect"),
            (("--crash=2", "--script", "select-only"), "--script has no effect"),
            (("--batch", "x.sql", "--crash=2"), "--batch and --crash are given together"),
            (("--latency-limit", "5"), "--latency-limit has no effect here"),
        ],
    )
    def test_an_option_without_effect_is_refused(self, place, arguments, words):
        with pytest.raises(UsageError, match=words.replace("(", r"\(")):
            mapping(place, *arguments)

    @pytest.mark.parametrize(
        "arguments",
        [("--scale", "ten"), ("--rate", "1,x"), ("--set", "fsync"), ("--crash=0",)],
    )
    def test_what_is_no_value_is_refused(self, place, arguments):
        with pytest.raises(click.BadParameter):
            mapping(place, *arguments)

    def test_no_place_at_all(self):
        with pytest.raises(UsageError, match="No directory or server is given"):
            trial_targets([], [], again=None)


class TestPasswords:
    @pytest.mark.parametrize(
        ("word", "left"),
        [
            ("postgresql://u:secret@h/d", "postgresql://u@h/d"),
            ("--url=postgres://u:secret@h:5/d", "--url=postgres://u@h:5/d"),
            ("a=postgresql://u:se@cr/et@h/d", "a=postgresql://u@h/d"),
            ("postgresql://h/d?password=secret&sslmode=require",
             "postgresql://h/d?password=***&sslmode=require"),
            ("postgresql://u@h/d", "postgresql://u@h/d"),
            ("/mnt/ssd", "/mnt/ssd"),
        ],
    )  # fmt: skip
    def test_a_word_of_the_command_line_holds_none(self, word, left):
        assert without_password(word) == left

    def test_of_an_address_it_goes_into_the_environment_only(self, monkeypatch, capsys):
        monkeypatch.delenv("PGPASSWORD", raising=False)
        (found,) = trial_targets([], [f"postgresql://bench:{RIGHT}@db1/d"], again=False)
        assert RIGHT not in repr(found)
        assert os.environ["PGPASSWORD"] == RIGHT
        reported = capsys.readouterr()
        assert "~/.pgpass" in reported.err
        assert RIGHT not in reported.err + reported.out
        # Not by monkeypatch, which would put it back in the end.
        del os.environ["PGPASSWORD"]

    def test_two_of_them_cannot_be_handed_on(self):
        with pytest.raises(UsageError, match="different passwords") as refused:
            trial_targets([], ["postgresql://a:one1@h/d", "postgresql://b:two2@h/d"], again=False)
        assert "one1" not in str(refused.value)


class TestRefusals:
    def test_a_directory_that_does_not_exist(self, tmp_path):
        assert_refused(tmp_path, ["db", tmp_path / "none"], 6, "does not exist")

    def test_a_server_that_is_not_there(self, tmp_path):
        url = "postgresql://bench@127.0.0.1:1/trial"
        assert_refused(tmp_path, ["db", "--url", url], 6, "127.0.0.1:1")

    def test_an_address_that_is_none(self, tmp_path):
        assert_refused(tmp_path, ["db", "--url", "http://somewhere/"], 2, "postgresql://")

    def test_a_server_that_is_too_old(self, tmp_path):
        server = _core.NullServer(server_version="9.6.24")
        try:
            url = f"postgresql://bench@{server.host}:{server.port}/trial"
            assert_refused(tmp_path, ["db", "--url", url], 6, "9.6", "version 13 or later")
        finally:
            server.stop()

    def test_programs_that_are_too_old(self, tmp_path, place):
        folder = tmp_path / "bin"
        folder.mkdir()
        for name in ("initdb", "postgres", "pgbench"):
            (folder / name).write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 9.6.24'\n")
            (folder / name).chmod(0o755)
        assert_refused(tmp_path, ["db", place, "--pg-bin", folder], 6, "9.6.24", "version 13")

    def test_programs_that_are_missing(self, tmp_path, place):
        assert_refused(tmp_path, ["db", place, "--pg-bin", place], 6, "no program initdb")

    def test_too_little_space_is_computed_before_loading(self, tmp_path, place):
        assert_refused(tmp_path, ["db", place, "--scale", "900000"], 8, "are available")

    def test_a_script_that_is_not_there(self, tmp_path, place):
        assert_refused(tmp_path, ["db", place, "--script", "mine.sql"], 2, "mine.sql")

    def test_a_server_of_others_is_not_crashed(self, tmp_path):
        url = "postgresql://bench@127.0.0.1:1/trial"
        assert_refused(
            tmp_path,
            ["db", "--url", url, "--crash=2"],
            2,
            "Seatrial kills only servers that it started",
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server that asks the user ``bench`` for a password, as one that is there already."""
    folder = tmp_path_factory.mktemp("server")
    folder.chmod(0o711)
    binaries = installed_programs()
    with UndoJournal("existing", folder / "state") as journal:
        account = account_for(folder / "data", binaries)
        cluster = create_cluster(folder / "data", binaries, account, journal)
        rules = "local all seatrial trust\nlocal all all scram-sha-256\n"
        (folder / "data/pg_hba.conf").write_text(rules)
        with cluster.start({}) as started:
            with contextlib.closing(connect(started.address)) as connection:
                connection.execute(f"CREATE ROLE bench LOGIN CREATEDB PASSWORD '{RIGHT}'")
                connection.execute("CREATE DATABASE theirs OWNER bench")
            with contextlib.closing(connect(started.address, dbname="theirs")) as connection:
                connection.execute("CREATE TABLE invoices AS SELECT 1 AS number")
            yield started


def url_of(server, password=""):
    secret = f":{password}" if password else ""
    return f"postgresql://bench{secret}@{str(server.address.host).replace('/', '%2F')}/postgres"


def everything(folder: Path) -> bytes:
    """All that a command left in its folder."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


class TestServers:
    def test_a_wrong_password_is_refused_and_reported_nowhere(self, server, tmp_path):
        reported = seatrial("db", "--url", url_of(server, WRONG), *SHORT, folder=tmp_path)
        assert reported.code == 6
        assert "password" in reported.err
        assert WRONG not in reported.out + reported.err
        assert WRONG.encode() not in everything(tmp_path)

    def test_a_right_password_reaches_no_file_and_no_output(self, server, tmp_path):
        reported = seatrial(
            "db", "--url", url_of(server, RIGHT), *SHORT, "--json", folder=tmp_path, timeout_s=120.0
        )
        assert reported.code == 0, reported.err
        assert reported.document["samples"]
        assert RIGHT not in reported.out + reported.err
        kept = everything(tmp_path)
        assert b"postgresql://bench@" in kept
        assert RIGHT.encode() not in kept
        with contextlib.closing(connect(server.address)) as connection:
            names = [row[0] for row in connection.execute("SELECT datname FROM pg_database")]
        assert sorted(names) == ["postgres", "template0", "template1", "theirs"]

    def test_a_database_with_tables_is_refused(self, server, tmp_path):
        reported = seatrial(
            "db",
            *("--url", url_of(server), "--database", "theirs", *SHORT),
            folder=tmp_path,
            env={"PGPASSWORD": RIGHT},
        )
        assert reported.code == 5, reported.err
        assert "table public.invoices" in reported.err
        assert not (tmp_path / "results.seatrial").exists()


def test_a_directory_is_measured_and_left_empty(place, tmp_path):
    installed_programs()
    reported = seatrial("db", place, *SHORT, "--json", folder=tmp_path, timeout_s=120.0)
    assert reported.code == 0, reported.err
    operations = {sample["cell"]["operation"] for sample in reported.document["samples"]}
    assert operations == {"commit", "write", "transaction"}
    assert list(place.iterdir()) == []
    assert list(tmp_path.glob("state/*.jsonl")) == []


def test_the_quick_trial_says_in_a_line_that_there_is_no_postgresql(place, monkeypatch):
    def none_found(_folder=None):
        raise TargetError(seen="No PostgreSQL was found", cause="none", next_step="none")

    monkeypatch.setattr("seatrial.postgres.binaries.find_binaries", none_found)
    plan = plan_of("quick", target_path=str(place))
    assert all(cell.kind != "pgbench" for cell in plan.cells)
    assert plan.left_out == ["pgbench is skipped on trial: No PostgreSQL was found"]
