"""Options of the command line put in place of what a study says."""

from __future__ import annotations

import pytest

from seatrial.errors import StudyError
from seatrial.study.load import load_study, shipped_studies, study_from_mapping, study_to_mapping
from seatrial.study.override import override
from seatrial.study.plan import make_plan
from study.builders import study_of

ADDRESS = "postgresql://u@h/db"


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


TWO = '[[target]]\nlabel = "hdd"\nsize = "2GiB"\n[[target]]\nlabel = "ssd"\n'
IO = '[[workload]]\nkind = "io"'


@pytest.mark.parametrize(
    ("body", "words", "places"),
    [
        (TWO, ["hdd=/a", "ssd=/b"], {"hdd": "/a", "ssd": "/b"}),
        (TWO, ["ssd=/b", "hdd=/a"], {"hdd": "/a", "ssd": "/b"}),
        (TWO, ["ssd=/b"], {"hdd": "", "ssd": "/b"}),
        (TWO, ["ssd=/b", "/a"], {"hdd": "/a", "ssd": "/b"}),
        (TWO, ["old=/a", "new=/b", "newest=/c"], {"old": "/a", "new": "/b", "newest": "/c"}),
        ("", ["/mnt/a=b"], {"trial": "/mnt/a=b"}),
        ("", ["trial=/a"], {"trial": "/a"}),
        ("", ["old=/a", "new=/b"], {"old": "/a", "new": "/b"}),
        ('[[target]]\nlabel = "a"\npath = "/a"\n', ["a=/b"], {"a": "/b"}),
    ],
)
def test_paths_go_to_the_targets_of_their_labels(body, words, places) -> None:
    study = override(study_of(body + IO), target_paths=words)
    assert {each.label: each.path for each in study.targets} == places


def test_a_label_of_the_users_own_keeps_what_the_study_says_of_its_targets() -> None:
    study = override(study_of(TWO + IO), target_paths=["hdd=/a", "newest=/b"])
    sizes = {each.label: each.size_bytes for each in study.targets}
    assert sizes == {"hdd": 2 << 30, "newest": 2 << 30}


@pytest.mark.parametrize(
    ("body", "words", "says"),
    [
        (TWO, ["hdd=/a", "hdd=/b"], "--target specifies 'hdd' twice"),
        (TWO, ["/a"], "Specify the label: --target hdd=PATH --target ssd=PATH"),
        (TWO, ["/a", "/b"], "has 2 targets, 2 of them without a path"),
        ('[[target]]\nlabel = "disk"\npath = "/a"\n', ["dsik=/b"], "Did you mean 'disk'?"),
        (
            '[[target]]\nlabel = "a"\nkind = "null"\n',
            ["b=/b"],
            "which is not a target of study 'test'",
        ),
    ],
)
def test_labels_that_fit_nothing_are_refused(body, words, says) -> None:
    with pytest.raises(StudyError) as caught:
        override(study_of(body + IO), target_paths=words)
    assert says in str(caught.value)


def test_an_address_in_place_of_a_path_is_a_server() -> None:
    study = study_of('[[workload]]\nkind = "pgbench"')
    for options in ({"target_path": ADDRESS}, {"target_paths": [ADDRESS]}):
        (target,) = override(study, **options).targets
        assert (target.kind, target.url, target.path) == ("database", ADDRESS, "")
    (target,) = override(study, target_paths=[f"trial={ADDRESS}"], size="1GiB").targets
    assert (target.url, target.size_bytes) == (ADDRESS, None)


def test_a_password_in_it_is_refused_and_not_repeated() -> None:
    with pytest.raises(StudyError, match="contains a password") as caught:
        override(study_of('[[workload]]\nkind = "pgbench"'), target_path="postgresql://u:s3c@h/d")
    assert "s3c" not in str(caught.value)


def test_what_belongs_to_storage_leaves_databases_alone() -> None:
    study = study_of('[[workload]]\nkind = "pgbench"\n[[workload]]\nkind = "telemetry"\n')
    changed = override(study, seconds=5, buffered=True, full=True, rounds=2)
    assert [each.duration_s for each in changed.workloads] == [5, 5]
    assert changed.rounds.max == 2


def test_a_batch_is_not_shortened(tmp_path) -> None:
    (tmp_path / "n.sql").touch()
    study = study_of(f'[[workload]]\nkind = "batch"\nfile = "{tmp_path}/n.sql"')
    assert override(study, seconds=5).workloads[0].duration_s == 3600


def test_a_path_too_many_is_refused() -> None:
    body = '[[target]]\nlabel = "a"\npath = "/a"\n[[target]]\nlabel = "b"\npath = "/b"\n'
    study = study_of(body + '[[workload]]\nkind = "io"')
    with pytest.raises(StudyError, match="has 2 targets, 0 of them without a path"):
        override(study, target_path="/c")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"size": "1GB"}, "--size: '1GB' is ambiguous"),
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


@pytest.mark.parametrize("name", shipped_studies())
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
