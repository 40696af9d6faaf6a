"""Options of the command line put in place of what a study says."""

from __future__ import annotations

import pytest

from seatrial.errors import StudyError
from seatrial.study.load import load_study, study_from_mapping, study_to_mapping
from seatrial.study.override import override
from seatrial.study.plan import make_plan
from study.builders import study_of


def test_nothing_is_changed_without_options() -> None:
    study = load_study("quick")
    assert override(study) == study


def test_sizes_seconds_rounds_budget_and_seed() -> None:
    options = {"seconds": 7, "rounds": 5, "budget_s": 60, "write_budget": "80GiB", "seed": 3}
    study = override(load_study("quick"), size="2GiB", **options)
    assert study.targets[0].size_bytes == 2 << 30
    assert (study.rounds.min, study.rounds.max) == (5, 5)
    assert (study.budget.time_s, study.budget.write_bytes) == (60, 80 << 30)
    assert study.seed == 3
    for workload in study.workloads:
        assert workload.duration_s == (3600 if workload.kind == "fill" else 7)


def test_buffered_goes_through_the_page_cache_everywhere() -> None:
    plan = make_plan(override(load_study("quick"), buffered=True))
    assert {cell.spec["target"]["direct"] for cell in plan.cells} == {False}


def test_full_measures_the_whole_matrix_without_a_bound_of_time() -> None:
    study = override(load_study("quick"), full=True)
    cells = [cell for cell in make_plan(study).cells if cell.kind == "matrix"]
    assert len(cells) == 14 * 3 * 2
    assert study.budget.time_s is None
    assert override(load_study("quick"), full=True, budget_s=30).budget.time_s == 30


def test_the_path_goes_to_the_only_target() -> None:
    assert override(load_study("quick"), target_path="/mnt/ssd").targets[0].path == "/mnt/ssd"


def test_the_path_goes_to_the_one_target_without_one() -> None:
    body = '[[target]]\nlabel = "a"\npath = "/a"\n[[target]]\nlabel = "b"\n'
    study = study_of(body + '[[workload]]\nkind = "io"')
    assert [each.path for each in override(study, target_path="/b").targets] == ["/a", "/b"]


def test_a_path_too_many_is_refused() -> None:
    body = '[[target]]\nlabel = "a"\npath = "/a"\n[[target]]\nlabel = "b"\npath = "/b"\n'
    study = study_of(body + '[[workload]]\nkind = "io"')
    with pytest.raises(StudyError, match="has 2 targets, 0 of them without a path"):
        override(study, target_path="/c")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"size": "1GB"}, "--size: '1GB' can mean"),
        ({"size": 0}, "--size: 0 is not between"),
        ({"write_budget": "x"}, "--write-budget: 'x' is not a size"),
        ({"rounds": 0}, "^--rounds is 0"),
        ({"seconds": -1}, "^--seconds is -1"),
        ({"budget_s": 0}, "^--budget is 0"),
        ({"seed": -1}, "^--seed is -1"),
    ],
)
def test_options_out_of_bounds_are_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(StudyError, match=says):
        override(load_study("quick"), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["quick", "one-dvd-per-second", "four-kib"])
def test_a_study_survives_the_results_file(name: str) -> None:
    study = load_study(name)
    mapping = study_to_mapping(study)
    assert study_from_mapping(mapping, name) == study
    assert make_plan(study_from_mapping(mapping, name)) == make_plan(study)


def test_everything_that_a_study_can_hold_survives() -> None:
    study = study_of(
        '[budget]\nwrite_bytes = "1GiB"\n[[target]]\nkind = "simulated"\n'
        "model = { channels = 2, freezes = [{ start_s = 1, length_s = 2 }] }\n"
        '[[workload]]\nkind = "io"\npattern = "strided"\nstride = "1MiB"\nrange_start = "1MiB"\n'
        'block_sizes = { from = "512", to = "8k" }\narrival = "fixed"\nrate = [1, 2.5]\n'
        '[[workload]]\nkind = "mix"\naccesses = ["own"]\n'
        '[[access]]\nname = "own"\nlines = [{ size = "8k" }, { sizes = [{ size = "4k" }] }]\n'
        '[thresholds]\n"io[block_size=8k].p99_ms" = "< 5"'
    )
    mapping = study_to_mapping(study)
    assert study_from_mapping(mapping, "again") == study
    assert mapping["workload"][0]["block_sizes"] == [512, 1024, 2048, 4096, 8192]
    assert mapping["thresholds"] == {"io[block_size=8k].p99_ms": "< 5"}
