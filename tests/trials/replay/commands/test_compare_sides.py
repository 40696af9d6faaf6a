"""The sides of ``seatrial sql compare``: what is named, what is the same, what is no one load."""

from __future__ import annotations

import copy
import csv
from pathlib import Path

import msgspec
import pytest

from seatrial.errors import UsageError
from seatrial.results.store import ResultsFile
from seatrial.trials.replay.commands.compare import CompareOptions, run
from seatrial.trials.replay.commands.compare_replays import replay_side, replay_sides
from seatrial.trials.replay.commands.compare_sides import (
    ReadOptions,
    Sides,
    read_sides,
    require_same_kind,
    without_offset,
)
from seatrial.trials.replay.compare.model import CallFigures, MeasuredSide, QueryLabel, Unit
from stats.builders import run_of
from trials.replay.analysis.hand import Play, rounds_of, sample_of


def reported(samples, **replay):
    """Samples whose cells have another replay."""
    found = []
    for sample in samples:
        spec = copy.deepcopy(sample.cell.spec)
        spec["database"]["replay"].update(replay)
        key = sample.cell.key + "".join(f"/{n}={v}" for n, v in replay.items() if n == "schema")
        cell = msgspec.structs.replace(sample.cell, spec=spec, key=key)
        found.append(msgspec.structs.replace(sample, cell=cell))
    return found


def of_targets(*labels):
    return [sample for label in labels for sample in rounds_of(Play(target=label, alone=False), 2)]


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """Some runs of replays, by label."""
    path = tmp_path_factory.mktemp("sides") / "results.seatrial"
    held = {
        "hdd": reported(rounds_of(Play(), 2), until_s=None, databases=[]),
        "ssd": reported(rounds_of(Play(capacity_per_s=1_800.0), 2), until_s=None, databases=[]),
        "part": reported(rounds_of(Play(), 2), until_s=600.0, databases=["shop"]),
        "both": of_targets("old", "new"),
        "schemas": [
            *reported(rounds_of(Play(), 2), schema="then"),
            *reported(rounds_of(Play(), 2), schema="now"),
        ],
        "four": [
            each
            for name in ("then", "now")
            for each in reported(of_targets("old", "new"), schema=name)
        ],
    }
    with ResultsFile.open(path, create=True) as store:
        for number, (label, samples) in enumerate(held.items()):
            targets = list(dict.fromkeys(sample.cell.target for sample in samples))
            study = {"target": [{"label": target, "path": f"/mnt/{target}"} for target in targets]}
            own = msgspec.structs.replace(
                run_of(study=study), id=f"20261121-07450{number}-3fa2", label=label
            )
            store.add_run(own, samples)
    return path


@pytest.mark.parametrize(
    ("references", "control", "words"),
    [
        (["hdd", "hdd"], None, "hdd and hdd are the same result"),
        (["both:old", "both:old"], None, "are the same result"),
        (["hdd", "ssd"], "hdd", "are the same result"),
        (["hdd", "ssd"], "ssd", "are the same result"),
        (["hdd", "both"], None, "Name it, as in both:new"),
        (["hdd", "part"], None, "the end (until) is none on one side and 600.0"),
        (["four"], None, "four:old:then"),
        (["both:old", "both:nothing"], None, "no target 'nothing'"),
    ],
)
def test_what_is_no_pair_is_refused(results, references, control, words):
    with pytest.raises(UsageError) as refused:
        replay_sides(references, control, results, anyway=False)
    assert words in str(refused.value)


def test_other_loads_are_compared_where_it_is_requested(results):
    found = replay_sides(["hdd", "part"], None, results, anyway=True)
    assert any("are different loads" in warning for warning in found.after.warnings)
    assert not replay_sides(["hdd", "ssd"], None, results, anyway=False).after.warnings


def test_rounds_that_ended_early_are_left_out(tmp_path):
    whole = rounds_of(Play(), 3)
    cut = [
        msgspec.structs.replace(sample_of(Play(ended_at_share=0.3, end=end)), round=number)
        for number, end in ((3, "interrupted"), (4, "server_lost"), (5, "complete"))
    ]
    path = tmp_path / "results.seatrial"
    with ResultsFile.open(path, create=True) as store:
        for number, (label, samples) in enumerate((("some", [*whole, *cut]), ("none", cut[1:]))):
            run = run_of(study={"target": [{"label": "trial", "path": "/mnt/trial"}]})
            own = msgspec.structs.replace(run, id=f"20261121-07450{number}-3fa2", label=label)
            store.add_run(own, samples)
    some = replay_side("some", path)
    assert [unit.number for unit in some.units] == [0, 1, 2]
    assert "3 of 6 rounds ended early" in some.warnings[0]
    assert [unit.number for unit in replay_side("none", path).units] == [4, 5]


def test_a_run_that_is_not_complete_is_a_partial_result(tmp_path):
    path = tmp_path / "results.seatrial"
    with ResultsFile.open(path, create=True) as store:
        study = {"target": [{"label": name, "path": f"/mnt/{name}"} for name in ("old", "new")]}
        run = msgspec.structs.replace(run_of(study=study), status="interrupted", label="cut")
        store.add_run(run, of_targets("old", "new"))
    found = replay_sides(["cut"], None, path, anyway=False)
    assert sum("partial result" in each for each in found.after.warnings) == 2


def test_a_schema_is_named_behind_a_colon(results):
    alone = replay_sides(["schemas"], None, results, anyway=False)
    assert (alone.before.name, alone.after.name) == ("schemas:then", "schemas:now")
    sides = replay_sides(["four:old:then", "four:old:now"], None, results, anyway=False)
    assert (sides.before.name, len(sides.before.units)) == ("four:old:then", 2)
    assert replay_side("schemas:now", results).name == "schemas:now"


def test_a_run_of_two_targets_is_no_side_of_a_log(results):
    with pytest.raises(UsageError, match="Name it, as in both:new"):
        replay_side("both", results)


ROWS = [
    {"userid": "10", "dbid": "5", "toplevel": "t", "queryid": str(n), "query": f"SELECT {name}",
     "calls": "10", "rows": "10", "total_exec_time": "100"}
    for n, name in enumerate(("a", "b", "c"))
]  # fmt: skip


def snapshot(place: Path, times: int, taken_at: int) -> Path:
    with place.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*ROWS[0], "snapshot_at"])
        writer.writeheader()
        for row in ROWS:
            grown = {name: str(int(row[name]) * times) for name in ("calls", "rows")}
            own = {"total_exec_time": str(100.5 * times), "snapshot_at": str(taken_at)}
            writer.writerow({**row, **grown, **own})
    return place


def test_two_moments_of_one_server_are_reported(tmp_path):
    first, last = (
        str(snapshot(tmp_path / f"a{n}.csv", n + 1, 1_795_000_000 + n)) for n in range(2)
    )
    reading = ReadOptions(results=tmp_path / "none")
    for references in ((first, last), (last, first)):
        (warning,) = read_sides(references, None, reading).after.warnings
        assert f"{first}..{last}." in warning
    assert not read_sides((f"{first}..{last}", last), None, reading).after.warnings
    with pytest.raises(UsageError, match="was taken before"):
        read_sides((f"{last}..{first}", last), None, reading)
    with pytest.raises(UsageError, match="are the same"):
        read_sides((first, f"{tmp_path}/./a0.csv"), None, reading)


def side(name, clock, *totals_s) -> MeasuredSide:
    return MeasuredSide(
        name=name,
        kind="replay" if clock == "client" else "log",
        clock=clock,
        units=[
            Unit(
                number=number,
                measured={
                    key: CallFigures(calls=10, total_s=total_s)
                    for key, total_s in zip("ab", each, strict=True)
                },
            )
            for number, each in enumerate(totals_s)
        ],
        labels={key: QueryLabel(key, "select") for key in "ab"},
    )


def test_what_the_offset_leaves_nothing_of_is_left_out_of_both_sides():
    sides = Sides(
        before=side("log", "server", (1.0, 0.02)),
        after=side("ssd", "client", (2.0, 0.009), (2.0, 0.02)),
    )
    found = without_offset(sides, 0.001)
    for each in (found.before, found.after):
        assert [list(unit.measured) for unit in each.units] == [["a"]] * len(each.units)
    assert found.after.units[0].measured["a"].total_s == pytest.approx(1.99)
    assert found.before.units[0].measured["a"].total_s == 1.0
    assert "1 query took the client no longer" in found.after.warnings[0]


def test_a_capture_by_the_proxy_has_the_clock_of_a_replay():
    wire = msgspec.structs.replace(side("wire", "client", (1.0, 1.0)), kind="log")
    replayed = side("ssd", "client", (1.0, 1.0))
    log = side("log", "server", (1.0, 1.0))
    require_same_kind(Sides(before=wire, after=replayed), None)
    with pytest.raises(UsageError, match="--client-offset"):
        require_same_kind(Sides(before=log, after=wire), None)


def options(folder: Path, *sides: str, **more) -> CompareOptions:
    return CompareOptions(sides=sides, results=folder / "none", **more)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"pages": ("a.log", "b.log"), "control": "a.log"},
            "--aa is given, and would have no effect",
        ),
        ({"batches": (("b", "1s", "2s"),), "pages_control": "a.log"}, "--pages-aa is given"),
        ({"batches": (("b", "1s", "2s"),), "offset_s": 1e-6}, "--client-offset is given"),
        ({"batches": (("b", "1s", "2s"),), "time_column": 3}, "--time-column is given"),
        ({"batches": (("b", "1s", "2s"),), "anyway": True}, "--anyway is given"),
    ],
)
def test_options_without_effect_are_refused(tmp_path, more, words):
    with pytest.raises(UsageError, match=words):
        run(options(tmp_path, **more))


def access_log(place: Path, *lines: tuple[str, int], seconds: str = "0.01") -> Path:
    place.write_text(
        "".join(
            f'10.0.0.1 - - [21/Nov/2026:08:00:{n % 60:02} +0000] "GET {page} HTTP/1.1" {status} 9 '
            f'"-" "x" {seconds}{n % 10}\n'
            for n, (page, status) in enumerate(lines)
        )
    )
    return place


def test_a_page_that_returns_errors_alone_is_reported(tmp_path):
    good = str(access_log(tmp_path / "a.log", *[("/a", 200), ("/b", 200)] * 20))
    bad = str(access_log(tmp_path / "b.log", *[("/a", 200), ("/b", 502)] * 20))
    found = read_sides((good, bad), None, ReadOptions(results=tmp_path / "none"))
    (warning,) = found.after.warnings
    assert "GET /b (20 requests)" in warning
    assert f"1 page of {good} returned only errors" in warning
    assert "1 page with only errors left out" in found.after.detail


def test_pieces_of_a_log_are_one_side(tmp_path):
    pieces = [access_log(tmp_path / f"a.log.{n}", *[("/a", 200)] * 20) for n in range(3)]
    other = access_log(tmp_path / "b.log", *[("/a", 200)] * 20)
    reading = ReadOptions(results=tmp_path / "none")
    for reference in (f"{tmp_path}/a.log.*", ",".join(map(str, pieces))):
        found = read_sides((reference, str(other)), None, reading)
        assert found.before.name == reference
        assert found.before.units[0].measured["GET /a"].calls == 60
    snapshots = ",".join(str(snapshot(tmp_path / f"{n}.csv", 1, 1)) for n in range(2))
    with pytest.raises(UsageError, match="not parts of one log"):
        read_sides((snapshots, str(other)), None, reading)


def sql_log(place: Path, every: int, ms: float) -> str:
    """Return a log of 800 statements, of which every so-manyth fails and so has no duration."""
    lines = []
    for n in range(800):
        head = f"2026-11-21 08:00:{n // 20:02}.{n % 20 * 50:03} UTC [7] app@shop "
        text = f"UPDATE t SET a = 1 WHERE id = {n}"
        lines += (
            [f"{head}ERROR:  deadlock detected", f"{head}STATEMENT:  {text}"]
            if every and n % every == 0
            else [f"{head}LOG:  duration: {ms * (9 + n % 3) / 10:.3f} ms  statement: {text}"]
        )
    place.write_text("\n".join(lines) + "\n")
    return str(place)


def test_failures_without_a_duration_hide_no_regression(tmp_path, capsys):
    logs = sql_log(tmp_path / "a.log", 3, 2.0), sql_log(tmp_path / "b.log", 0, 10.0)
    assert run(options(tmp_path, *logs, slower_share=0.1, as_json=True)) == 3
    queries = msgspec.json.decode(capsys.readouterr().out)["queries"]
    assert queries["overall"]["answer"] == "slower"
    assert queries["changes"][0]["before"]["errors"] == 0
    assert any(each.startswith("267 of 800 ") for each in queries["warnings"])
    assert not any("per second" in each for each in queries["warnings"])


def test_requests_that_failed_before_hide_no_slower_page(tmp_path, capsys):
    before = str(access_log(tmp_path / "b.log", *[("/a", 200), ("/a", 404), ("/a", 200)] * 200))
    after = str(access_log(tmp_path / "a.log", *[("/a", 200)] * 600, seconds="0.04"))
    assert run(options(tmp_path, before, after, slower_share=0.1, as_json=True)) == 3
    pages = msgspec.json.decode(capsys.readouterr().out)["pages"]
    assert pages["overall"]["answer"] == pages["changes"][0]["answer"] == "slower"
    assert any(each.startswith("200 of 600 requests of ") for each in pages["warnings"])
    assert not any("per second" in each for each in pages["warnings"])


def test_the_pages_have_an_a_a_pair_of_their_own(tmp_path, capsys):
    logs = [str(access_log(tmp_path / name, *[("/a", 200)] * 600)) for name in ("a", "b", "again")]
    run(options(tmp_path, pages=(logs[0], logs[1]), pages_control=logs[2], as_json=True))
    document = msgspec.json.decode(capsys.readouterr().out)
    assert document["pages"]["floor"]["source"] == "pair"
