"""Which cells are the same, which rounds were close to each other."""

import msgspec
import pytest

from seatrial.errors import UsageError
from seatrial.stats.compare.pairing import is_interleaved, match, match_regardless, order_warning
from stats.builders import cell_of, sample_of
from stats.compare.sides import side_of


def side(name, *cells, rounds=2, begin_s=0.0, step_s=100.0, run_id=None, engine="psync"):
    samples = [
        sample_of(cell, round=number, started_at=begin_s + step_s * number, engine=engine)
        for cell in cells
        for number in range(rounds)
    ]
    return side_of(name, samples, run_id=run_id)


def test_cells_are_matched_by_key_without_the_target():
    a = side("a", cell_of(target="ssd"), cell_of(target="ssd", threads=4))
    b = side("b", cell_of(), cell_of(threads=8))
    matched = match(a, b)
    assert [cell.key for cell in matched.cells] == ["matrix/read/8192B/1t/1d"]
    (cell,) = matched.cells
    assert "target" not in cell.identity
    assert (len(cell.a), len(cell.b)) == (2, 2)
    assert matched.only_a == ["matrix/read/8192B/4t/1d"]
    assert matched.only_b == ["matrix/read/8192B/8t/1d"]
    assert not matched.by_identity


def test_cells_of_several_targets_are_named_by_them():
    cells = [cell_of(target=target) for target in ("ssd", "hdd")]
    matched = match(side("a", *cells), side("b", *cells))
    assert {cell.identity["target"] for cell in matched.cells} == {"ssd", "hdd"}


def test_a_workload_that_is_called_as_the_target_keeps_its_name():
    a = side("a", cell_of(workload="ssd", target="ssd"))
    b = side("b", cell_of(workload="ssd", target="hdd"))
    assert [cell.key for cell in match(a, b).cells] == ["ssd/read/8192B/1t/1d"]


def test_cells_of_other_names_are_matched_by_what_they_do():
    a = side("a", cell_of(factors={"pattern": "random"}), cell_of(threads=4))
    imported = cell_of(workload="job1", kind="io", factors={"pattern": "random", "direct": True})
    matched = match(a, side("b", imported))
    assert [cell.key for cell in matched.cells] == ["matrix/read/8192B/1t/1d/pattern=random"]
    assert matched.only_a == ["matrix/read/8192B/4t/1d"]
    assert matched.by_identity


def test_cells_that_do_the_same_twice_are_not_guessed():
    b = side("b", cell_of(workload="x"), cell_of(workload="y"))
    with pytest.raises(UsageError):
        match(side("a", cell_of()), b)


def test_no_common_cell_names_what_each_side_has():
    a = side("before", *(cell_of(threads=threads) for threads in (1, 2, 3, 4, 5)))
    b = side("after", cell_of(operation="write"))
    with pytest.raises(UsageError) as raised:
        match(a, b)
    reported = str(raised.value)
    assert "before has 5 tests (matrix/read/8192B/1t/1d" in reported
    assert "and 2 more)" in reported
    assert "after has 1 test (matrix/write/8192B/1t/1d)" in reported
    assert raised.value.exit_code == 2
    empty = side_of("nothing", [])
    with pytest.raises(UsageError, match="nothing has no tests"):
        match(a, empty)


@pytest.mark.parametrize(
    ("factors", "said"),
    [
        ({"direct": False}, "direct is true on one side and false on the other"),
        ({"data": "zeros"}, "data is random on one side and zeros on the other"),
    ],
)
def test_factors_that_forbid_a_comparison_are_named(factors, said):
    a, b = side("a", cell_of()), side("b", cell_of(factors=factors))
    with pytest.raises(UsageError, match=said):
        match(a, b)
    assert len(match_regardless(a, b).cells) == 1


def test_targets_of_one_run_are_interleaved():
    a = side("a", cell_of(target="a"), run_id="one")
    b = side("b", cell_of(target="b"), run_id="one", begin_s=5000)
    assert is_interleaved(a, b)


def test_runs_measured_in_turns_are_interleaved():
    a = side("a", cell_of(), rounds=3, begin_s=0, step_s=100)
    in_turns = side("b", cell_of(), rounds=3, begin_s=50, step_s=100)
    assert is_interleaved(a, in_turns)
    assert not is_interleaved(a, side("b", cell_of(), rounds=3, begin_s=1000))
    # Of a single round nothing tells whether it was in turns.
    assert not is_interleaved(side("a", cell_of(), rounds=1), side("b", cell_of(), rounds=1))
    # Round 1 of B comes before round 0 of A has ended.
    assert not is_interleaved(a, side("b", cell_of(), rounds=3, begin_s=-100.5))


def imported(name, begin_s=50.0, **origin):
    one_side = side(name, cell_of(), begin_s=begin_s, run_id="imported")
    reported = {"format": "csv", "file": f"{name}.csv", "tool": "csv", **origin}
    run = msgspec.structs.replace(one_side.side.run, study={"imported": reported})
    own = msgspec.structs.replace(one_side.side, run=run)
    return msgspec.structs.replace(one_side, side=own)


def test_a_foreign_result_is_interleaved_by_its_times_alone():
    a = side("a", cell_of())
    assert is_interleaved(a, imported("dated"))
    assert not is_interleaved(a, imported("undated", is_dated=False))
    one_after_the_other = imported("first"), imported("second", begin_s=1000.0)
    assert not is_interleaved(*one_after_the_other)


def test_the_order_is_warned_of_where_it_can_mislead():
    a = side("a", cell_of())
    assert "one after the other: a change of the machine" in order_warning(
        a, side("b", cell_of(), begin_s=1000)
    )
    assert "at the same time" in order_warning(a, side("b", cell_of(), begin_s=0.5, step_s=99.9))
    undated = imported("u", is_dated=False)
    assert order_warning(a, undated).startswith("The time at which u was measured is unknown")
    virtual = side("v", cell_of(), engine="simulated")
    assert order_warning(virtual, msgspec.structs.replace(virtual)) == ""
