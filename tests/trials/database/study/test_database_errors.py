"""Every mistake in a study of databases has its line and key, and no password is repeated."""

from __future__ import annotations

import pytest

from seatrial.errors import StudyError
from seatrial.study.load import parse_study, study_from_options
from seatrial.study.plan import make_plan
from seatrial.study.server_address import holds_password

HEAD = 'name = "s"\n'
PGBENCH = HEAD + '[[workload]]\nkind = "pgbench"\n'
BATCH = HEAD + '[[workload]]\nkind = "batch"\nfile = "n.sql"\n'
TELEMETRY = HEAD + '[[workload]]\nkind = "telemetry"\n'
SERVER = HEAD + '[[target]]\nkind = "database"\nurl = "postgresql://u@h/db"\n'
WORKLOAD = '[[workload]]\nkind = "pgbench"\n'
SECRET = "s3cret"


def said(text: str) -> str:
    with pytest.raises(StudyError) as caught:
        parse_study(text, "my.toml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        (PGBENCH + "clients = 0", "line 4: workload[0].clients ", "at least 1"),
        (PGBENCH + "scale = 1.5", "line 4: workload[0].scale ", "a whole number"),
        (PGBENCH + "processes = 65", "line 4: workload[0].processes ", "at most 64"),
        (PGBENCH + "jobs = 0", "line 4: workload[0].jobs ", "at least 1"),
        (PGBENCH + 'start = "hot"', "line 4: workload[0].start ", "cold"),
        (PGBENCH + 'protocols = ["simple", "fast"]', "workload[0].protocols[1] ", "prepared"),
        (PGBENCH + "direct = false", "line 4: workload[0].direct ", "not a key of a pgbench"),
        (PGBENCH + "latency_limit_ms = 5", ".latency_limit_ms has no effect", "set a rate"),
        (PGBENCH + "latency_limit_ms = 0\nrate = 5", ".latency_limit_ms ", "above 0"),
        (PGBENCH + "latency_limit_ms = inf\nrate = 5", ".latency_limit_ms is inf", "at most"),
        (PGBENCH + "scale = [10, 10]", "line 4: workload[0].scale holds 10 twice", "once"),
        (PGBENCH + 'scripts = ["a/x.sql", "b/x.sql"]', "scripts[1] has the name 'x.sql'", "rename"),
        (PGBENCH + 'memory_limit = "1GB"', ".memory_limit is invalid", "1GiB"),
        (PGBENCH + 'memory_limit = "1GiB"\nstart = "warm"', ".memory_limit ", "'cold'"),
        (PGBENCH + "settings = 3", "line 4: workload[0].settings is 3", "a table"),
        (PGBENCH + 'settings = { fsync = ["on", true] }', ".fsync has 'on' twice", "once"),
        (PGBENCH + 'settings = { "f sync" = 1 }', "f sync is not the name of a setting", "example"),
        (PGBENCH + "settings = { port = 1 }", "settings.port cannot be set", "Seatrial sets"),
        (PGBENCH + "settings = { PORT = 1 }", "settings.PORT cannot be set", "Seatrial sets"),
        (
            PGBENCH + "settings = { scale = 1 }",
            "scale is not a server setting",
            "key of the workload",
        ),
        (PGBENCH + "settings = { a = 1, A = 2 }", "settings.A is given twice", "case"),
        (PGBENCH + "settings = { work_mem = inf }", "settings.work_mem is inf", "finite"),
        (PGBENCH + 'settings = { a = "on\\nport = 1" }', "settings.a is", "one line"),
        (BATCH + "clients = 2", "line 5: workload[0].clients is 2", "one client"),
        (BATCH + "clients = [1, 2]", "line 5: workload[0].clients is 1, 2", "'processes'"),
        (BATCH + 'prepare = "p.sql"\nscale = 3', "line 6: workload[0].scale ", "With 'prepare'"),
        (HEAD + '[[workload]]\nkind = "batch"', "workload[0] has no 'file'", "required"),
        (TELEMETRY + "query_share = 2", "line 4: workload[0].query_share is 2", "at most 1"),
        (TELEMETRY + "devices = 0", "line 4: workload[0].devices is 0", "at least 1"),
    ],
)
def test_what_cannot_be_in_a_workload(text: str, place: str, says: str) -> None:
    reported = said(text)
    assert reported.startswith("my.toml, line ")
    assert place in reported
    assert says in reported


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ('start = "cold"', "start is 'cold', but target 'trial' is an existing server"),
        ('start = ["as_is", "warm"]', "start is 'warm', but target 'trial'"),
        (
            'memory_limit = "1GiB"',
            "memory_limit is given, but target 'trial' is an existing server",
        ),
        ('clone = "reflink"', "clone is 'reflink'"),
        ('clone = "copy"', "Expected template, reuse or auto"),
    ],
)
def test_what_an_existing_server_cannot_have(keys: str, says: str) -> None:
    assert says in said(SERVER + WORKLOAD + keys)
    assert parse_study(SERVER + WORKLOAD + 'clone = "template"\nstart = "as_is"', "x")


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ("processes = 2", "processes is 2, but target 'trial' names one database"),
        ('clone = "template"', "A copy would be another database"),
        ("settings = { work_mem = 1 }", "settings are given, but target 'trial' names"),
    ],
)
def test_what_a_database_that_is_named_cannot_have(keys: str, says: str) -> None:
    assert says in said(f'{SERVER}database = "x"\n{WORKLOAD}{keys}')
    assert parse_study(f'{SERVER}database = "x"\n{WORKLOAD}clone = "reuse"', "x")


def test_a_server_of_our_own_is_never_as_it_is() -> None:
    there = HEAD + '[[target]]\npath = "/mnt"\n' + WORKLOAD + 'start = "as_is"'
    assert "start is 'as_is', but target 'trial' is not an existing server" in said(there)
    # Where the place is still open, it may yet become one.
    assert parse_study(PGBENCH + 'start = "as_is"', "x")


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ('url = "mysql://u@h/db"', "url is not the address of a server"),
        ('url = "h:5432"', "Expected postgresql://USER@HOST:PORT/DATABASE"),
        ('kind = "device"\nurl = "postgresql://h/db"', "the target's kind is 'device'"),
        ('path = "/x"\nurl = "postgresql://h/db"', "url is given together with a path"),
        ('kind = "database"\npath = "/x"', "path is '/x', not the address of a server"),
        ('path = "/x"\ndatabase = "x"', "database is given, but the target is not a server"),
        ('url = "postgresql://h/db"\ndatabase = "a\\u0007"', "plain text of at most 63 bytes"),
        (f'url = "postgresql://h/db"\ndatabase = "{"x" * 64}"', "at most 63 bytes"),
        ('url = "postgresql://h/db"\nsize = "1GiB"', "size has no effect here"),
        ('kind = "null"\npg_bin = "/x"', "pg_bin is given, but the target's kind is 'null'"),
    ],
)
def test_what_cannot_be_a_target(keys: str, says: str) -> None:
    assert says in said(f"{HEAD}[[target]]\n{keys}\n{WORKLOAD}")


PASSWORDS = [
    f"postgresql://u:{SECRET}@h/db",
    f"postgres://u:{SECRET}@h:5432/db",
    f"postgresql://h/db?password={SECRET}",
    f"postgresql://u@h/db?sslmode=require&PASSWORD={SECRET}",
    f"postgresql://u@h/db?sslpassword={SECRET}",
    f"postgresql://u:{SECRET}@x/y?z@h/db",
    f"postgresql://u:a/{SECRET}@h/db",
    f"postgresql://u:?{SECRET}@h/db",
]


@pytest.mark.parametrize("key", ["url", "path"])
@pytest.mark.parametrize("address", PASSWORDS)
def test_a_password_is_refused_and_not_repeated(key: str, address: str) -> None:
    reported = said(f'{HEAD}[[target]]\n{key} = "{address}"\n{WORKLOAD}')
    assert f"target[0].{key} contains a password, which would be stored" in reported
    assert "PGPASSWORD" in reported
    assert SECRET not in reported
    with pytest.raises(StudyError) as caught:
        study_from_options(
            {"name": "s", "target": [{key: address}], "workload": [{"kind": "pgbench"}]}
        )
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://h/db",
        "postgresql://u@h:5432/db",
        "postgresql:///db?host=/run/postgresql",
        "postgresql://[::1]:5432/db",
        "postgresql://u@[::1]:5432/db?sslmode=require&passfile=/x",
    ],
)
def test_an_address_without_a_password_is_taken(address: str) -> None:
    assert not holds_password(address)
    study = parse_study(f'{HEAD}[[target]]\nurl = "{address}"\n{WORKLOAD}', "x")
    assert (study.targets[0].kind, study.targets[0].url) == ("database", address)


def test_no_other_address_is_mistaken_for_that_of_a_server() -> None:
    text = f'{HEAD}[[target]]\nurl = "mysql://u:{SECRET}@h/db"\n{WORKLOAD}'
    assert SECRET not in said(text)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('"pgbench.iops" = "> 5"', "Thresholds of a database are tps"),
        ('"pgbench.mb_per_s" = "> 5"', "Thresholds of a database are tps"),
        ('"pgbench.real_s" = "< 5"', "Only batches have real_s"),
        ('"pgbench.sustained_per_s" = "> 5"', "Only a load line has sustained_per_s"),
        ('"pgbench.tsp" = "> 5"', "valid are p50"),
    ],
)
def test_thresholds_that_no_database_has(line: str, says: str) -> None:
    assert says in said(f"{PGBENCH}[thresholds]\n{line}")


def test_thresholds_of_batches_and_of_storage() -> None:
    assert "Thresholds of a batch are real_s" in said(f'{BATCH}[thresholds]\n"batch.tps" = "> 5"')
    storage = f'{HEAD}[[workload]]\nkind = "io"\n[thresholds]\n"io.tps" = "> 5"'
    assert "Only databases have tps" in said(storage)


@pytest.mark.parametrize("where", ["threads=10", "depth=1", "block_size=8k", "clients=11"])
def test_brackets_speak_of_clients(where: str) -> None:
    study = parse_study(f'{PGBENCH}[thresholds]\n"pgbench[{where}].tps" = "> 5"', "x")
    with pytest.raises(StudyError, match="matches no test"):
        make_plan(study)


def test_brackets_select_by_every_factor() -> None:
    text = (
        f'{PGBENCH}memory_limit = "1GiB"\nprocesses = 2\nsettings = {{ fsync = [false, true] }}\n'
        '[thresholds]\n"pgbench[clients=10, scale=10, memory_limit=1024MiB, processes=2, '
        'fsync=off].p99_ms" = "< 5"'
    )
    assert make_plan(parse_study(text, "x")).cells


def test_two_cells_of_one_key_are_refused() -> None:
    study = parse_study(PGBENCH + "rate = [0.1, 0.10000000001]", "x")
    with pytest.raises(
        StudyError, match=r"two tests with the key pgbench/transaction/10c/scale=10/rate=0\.1"
    ):
        make_plan(study)


def test_a_target_that_serves_nothing_says_why() -> None:
    study = parse_study(f'{HEAD}[[target]]\nkind = "null"\n{WORKLOAD}', "x")
    with pytest.raises(StudyError, match="a database needs a directory, but"):
        make_plan(study)
    study = parse_study(f'{SERVER}[[workload]]\nkind = "io"', "x")
    with pytest.raises(StudyError, match="an existing server, and its files must not be measured"):
        make_plan(study)
