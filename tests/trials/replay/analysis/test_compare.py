"""Two replays of one trace compare as any cell; other traces and other loads are reported."""

from __future__ import annotations

import msgspec
import pytest

from seatrial.errors import UsageError
from seatrial.report.comparison_page import comparison_table, render
from seatrial.results.model import StartRecord
from seatrial.stats.compare.comparison import compare
from stats.compare.sides import side_of

from .hand import Play, changed, rounds_of


def side(name, play, rounds=5, identity=None):
    samples = rounds_of(play, rounds)
    if identity:
        samples = [_of_trace(sample, identity) for sample in samples]
    return side_of(name, samples)


def _of_trace(sample, identity):
    spec = msgspec.convert(msgspec.to_builtins(sample.cell.spec), dict)
    spec["database"]["replay"]["identity"] = identity
    return msgspec.structs.replace(sample, cell=msgspec.structs.replace(sample.cell, spec=spec))


def compared(a, b):
    (found,) = compare(side("before", a), [side("after", b)])
    return found


def test_a_faster_server_answers_more_statements_a_second():
    found = compared(Play(), Play(capacity_per_s=1_800.0))
    rate = next(comparand for comparand in found.comparands if comparand.figure == "statements/s")
    assert rate.answer == "higher"
    assert rate.ratio.value == pytest.approx(2.0, rel=0.05)
    assert found.overall_answers["statements/s"].answer == "higher"
    assert "2.0" in found.verdict or "1.9" in found.verdict


def test_each_class_of_statements_has_its_latencies():
    found = compared(Play(speed=1.0), Play(speed=1.0))
    figures = {comparand.figure for comparand in found.comparands}
    assert {f"{name} p99" for name in ("select", "update", "insert", "transaction")} <= figures
    assert {comparand.answer for comparand in found.comparands} <= {"same", "undecided"}


def test_a_replay_that_is_shorter_because_it_is_faster_is_no_fault():
    found = compared(Play(), Play(capacity_per_s=1_800.0))
    assert not [warning for warning in found.warnings if "long" in warning]


def test_a_load_that_was_not_played_is_reported():
    broken = Play(ended_at_share=0.5, end="server_lost")
    found = compared(Play(), broken)
    assert any("1 replay on after had faults" in w for w in found.warnings)
    assert not any("replay on before" in warning for warning in found.warnings)


def test_other_traces_of_the_same_name_are_not_compared():
    a, b = side("before", Play(), identity="4f1c"), side("after", Play(), identity="99aa")
    with pytest.raises(UsageError, match="played different traces"):
        compare(a, [b])
    (found,) = compare(a, [b], anyway=True)
    assert any("played different traces" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("reported", "words"),
    [
        ({"replay": {"until_s": 600.0}}, r"the end \(until\) is none on one side and 600"),
        ({"replay": {"connections_max": 7}}, "the connection limit is none"),
        ({"replay": {"databases": ["shop"]}}, "databases is all on one side and shop on the other"),
        (
            {"replay": {"allow": ["ddl", "recovery"]}},
            "--allow option is nothing on one side and ddl",
        ),
        ({"load": {"kind": "archive", "file": "/a/new.dump"}}, "old.dump on one side and new.dump"),
    ],
)
def test_other_loads_of_one_trace_are_not_compared(reported, words):
    usual_floor = {"until_s": None, "connections_max": None, "databases": [], "allow": []}
    load = {"kind": "archive", "file": "/b/old.dump"}
    a = _described(side("before", Play()), {"replay": usual_floor, "load": load})
    b = _described(side("after", Play()), {"replay": usual_floor | reported.get("replay", {}),
                                      "load": reported.get("load", load)})  # fmt: skip
    with pytest.raises(UsageError, match=words):
        compare(a, [b])
    (found,) = compare(a, [b], anyway=True)
    assert any("different loads" in warning for warning in found.warnings)
    compare(a, [_described(b, {"replay": usual_floor | {"allow": ["same_system"]}, "load": load})])


def _described(one_side, reported):
    samples = []
    for sample in one_side.samples:
        spec = msgspec.convert(msgspec.to_builtins(sample.cell.spec), dict)
        spec["database"]["replay"].update(reported["replay"])
        spec["database"]["load"] = reported["load"]
        cell = msgspec.structs.replace(sample.cell, spec=spec)
        samples.append(msgspec.structs.replace(sample, cell=cell))
    return msgspec.structs.replace(one_side, samples=samples)


def test_sides_that_began_with_other_data_are_not_compared():
    def begun(name, rows):
        one_side = side(name, Play())
        start = StartRecord(rows={"public.orders": rows})
        samples = [
            msgspec.structs.replace(s, database=msgspec.structs.replace(s.database, start=start))
            for s in one_side.samples
        ]
        return msgspec.structs.replace(one_side, samples=samples)

    compare(begun("before", 5), [begun("after", 5)])
    with pytest.raises(UsageError, match=r"public\.orders had 7 rows, not 5"):
        compare(begun("before", 5), [begun("after", 7)])


def test_the_page_and_the_table_hold_both():
    found = compared(Play(), changed(Play(), capacity_per_s=1_200.0))
    page = render([found])
    assert "statements/s" in page
    (header, *rows) = [comparison_table(found).headers, *comparison_table(found).rows]
    assert len(rows) >= 5
    assert all(len(row) == len(header) for row in rows)
