"""The real command compare: simulated devices, directories of one disk, foreign and bad input."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from cli.command import seatrial
from cli.test_bad_input import assert_refused
from report.json_schema import assert_published
from seatrial.cli.compare_command import ComparedSides, _names, compared, slower_than
from seatrial.cli.sources import NamedResult
from seatrial.errors import UsageError
from seatrial.stats.compare.comparison import compare
from stats.builders import run_of, sample_of
from stats.compare.sides import side_of, side_with_rates

TWO_DEVICES = """
name = "two-slots"
[rounds]
min = 6
max = 6
remeasure = 0
{targets}
[[workload]]
kind = "matrix"
block_sizes = ["8KiB", "64KiB"]
threads = [1, 10]
operations = "read"
seconds = 0.1
"""
SIMULATED = """
[[target]]
label = "{label}"
kind = "simulated"
size = "{size}"
[target.model]
channels = 4
noise_share = 0.3
[target.model.read]
base_us = {base_us}
per_kib_us = {per_kib_us}
"""


def simulated(label, *, slowness=1.0, size="64MiB"):
    return SIMULATED.format(
        label=label, base_us=100 * slowness, per_kib_us=0.4 * slowness, size=size
    )


def study_of(folder: Path, *targets: str, name="two.toml", **replaced: str) -> Path:
    text = TWO_DEVICES.format(targets="\n".join(targets))
    for old, new in replaced.items():
        text = re.sub(rf"^{old} = .*$", f"{old} = {new}", text, flags=re.MULTILINE)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Two simulated devices, one a quarter slower, and the slow one once more; then each alone."""
    folder = tmp_path_factory.mktemp("compared")
    slow, again = (simulated(label, slowness=1.25) for label in ("slow", "slow-aa"))
    study = study_of(folder, slow, simulated("fast"), again)
    together = seatrial("study", study, "--label", "both", "--tables", folder=folder)
    assert together.code == 0, together.err
    (folder / "study.out").write_text(together.out, encoding="utf-8")
    for label, slowness in (("before", 1.0), ("after", 1.25)):
        alone = study_of(folder, simulated("disk", slowness=slowness), name=f"{label}.toml")
        assert seatrial("study", alone, "--label", label, folder=folder).code == 0
    return folder


def test_a_study_of_several_targets_ends_with_their_comparison(measured):
    reported = " ".join((measured / "study.out").read_text(encoding="utf-8").split())
    assert "What differs in machine and target" in reported
    assert "fast against slow, test by test" in reported
    found = re.search(
        r"fast is (1\.2\d)\d?x \(1\.2\d+ to 1\.2\d+\) as fast as slow over 4 tests", reported
    )
    assert found, reported[-1500:]
    assert "4 of 4 tests faster, none slower" in reported
    assert "Noise floor: slow and slow-aa, which are the same thing, differ by up to" in reported
    assert "slow-aa against slow" not in reported


def test_targets_of_a_run_are_paired_and_their_control_is_the_noise_floor(measured):
    ended = seatrial("compare", "both", "--json", folder=measured)
    assert (ended.code, ended.err) == (0, "")
    assert_published(ended.document)
    assert ended.document["a"]["name"] == "slow"
    (reported,) = ended.document["comparisons"]
    assert reported["paired"]
    assert reported["warnings"] == []
    assert reported["noise"]["source"] == "pair"
    assert 0 <= reported["noise_share"] < 0.03
    rates = [each for each in reported["comparands"] if each["figure"] == "iops"]
    assert {each["answer"] for each in rates} == {"higher"}
    for each in rates:
        assert each["ratio"]["low"] < 1.25 < each["ratio"]["high"] * 1.005
    assert reported["overall"]["iops"]["value"] == pytest.approx(1.25, rel=0.01)
    assert [finding["kind"] for finding in reported["findings"]] == ["improved"]
    words = [each["words"] for each in reported["differences"]]
    assert "simulated device: read.base us" in words
    assert not any("kernel" in each for each in words)


def test_the_same_device_twice_is_not_called_different(measured):
    ended = seatrial("compare", "both:slow", "both:slow-aa", "--json", folder=measured)
    (reported,) = ended.document["comparisons"]
    assert {each["answer"] for each in reported["comparands"]} <= {"same", "undecided"}
    assert reported["overall_answers"]["iops"]["answer"] in ("same", "undecided")
    assert reported["findings"] == []


def test_the_sides_come_in_the_order_in_which_they_are_named(measured):
    reported = seatrial(
        "compare", "--tables", "both:fast", "both:slow", "--figure", "iops", folder=measured
    )
    assert re.search(r"both:slow is 0\.80\d?x .* as fast as both:fast", reported.out)
    assert "p99" not in reported.out.partition("What differs")[2].partition("why:")[0]


def test_slower_than_allowed_is_exit_code_3(measured):
    slower = seatrial(
        "compare", "--tables", "before", "after", "--fail-if-slower", "10", folder=measured
    )
    assert slower.code == 3
    assert "Slower by more than 10 %: iops of 4 tests is 0.8" in slower.out
    assert " ! after is slower than before over 4 tests" in slower.out
    for allowed in (
        ("before", "after", "--fail-if-slower", "30"),
        ("after", "before", "--fail-if-slower", "0"),
        ("before", "after"),
    ):
        assert (
            seatrial("compare", "--tables", *allowed, "--figure", "iops", folder=measured).code == 0
        )


def test_what_is_slower_by_the_near_end_of_its_interval_fails(measured):
    requested = ("before", "after", "--figure", "iops")
    (reported,) = seatrial("compare", *requested, "--json", folder=measured).document["comparisons"]
    ratios = [reported["overall"]["iops"], *(each["ratio"] for each in reported["comparands"])]
    assert all(ratio["value"] < ratio["high"] for ratio in ratios)
    significant = 100 * (1 - min(ratio["high"] for ratio in ratios))
    for percent, code in ((significant * 0.999, 3), (significant * 1.001, 0)):
        ended = seatrial(
            "compare", "--tables", *requested, "--fail-if-slower", percent, folder=measured
        )
        assert ended.code == code, (percent, ratios)


@pytest.mark.parametrize(
    ("changes", "figures", "percent", "slower"),
    [
        ({"completed": 0, "failed": 1000}, None, 500, True),
        ({"completed": 0, "failed": 1000}, ["p99"], 500, True),
        ({"completed": 1400, "late_skipped": 600}, ["p99"], 500, True),
        ({"completed": 999}, ["p99"], 0, False),
    ],
    ids=["nothing completed", "no percentile of nothing", "overloaded", "too few"],
)
def test_what_b_never_answered_is_slower_than_any_limit(changes, figures, percent, slower):
    sides = [
        side_of(name, [sample_of(round=number, **own) for number in range(3)], run_id="one")
        for name, own in (("A", {"completed": 2000}), ("B", changes))
    ]
    (reported,) = compare(sides[0], sides[1:], figures=figures)
    assert bool(slower_than(reported, percent / 100)) == slower


@pytest.mark.parametrize("figure", ["nosuch", "tps"])
def test_a_misspelt_figure_is_refused_where_a_test_of_several_is_blank(figure):
    a = side_with_rates("A", [[0, 0], *[[1000, 1010]] * 5])
    b = side_with_rates("B", [[100, 101], *[[400, 410]] * 5])
    with pytest.raises(UsageError, match=figure):
        compared(ComparedSides(first=a, others=[b]), figures=[figure])
    (known,) = compared(ComparedSides(first=a, others=[b]), figures=["iops"])
    assert "in 1 of 6 tests" in known.verdict
    assert slower_than(known, 0.05)


def test_the_page_of_a_comparison_is_written(measured):
    page = measured / "compared.html"
    ended = seatrial("compare", "--tables", "before", "after", "--report", page, folder=measured)
    assert ended.code == 0, ended.err
    assert ended.out.endswith(f"Report: {page}\n")
    text = page.read_text(encoding="utf-8")
    assert "after is 0.8" in text
    assert "I/O" in text or "simulated device" in text


def test_several_are_each_compared_with_the_first(measured):
    ended = seatrial("compare", "before", "after", "both:fast", "--json", folder=measured)
    assert [each["b"]["name"] for each in ended.document["comparisons"]] == ["after", "both:fast"]


def test_another_measurement_of_a_can_be_named(measured):
    reported = seatrial(
        "compare",
        "--tables",
        "before",
        "after",
        "--aa",
        "both:fast",
        "--figure",
        "iops",
        folder=measured,
    )
    assert "Noise floor: before and both:fast, which are the same thing" in reported.out


def says_different(folder: Path, label: str) -> bool:
    """Measure two directories of one disk; return whether they are called different."""
    targets = []
    for name in ("one", "other"):
        (folder / name).mkdir(exist_ok=True)
        targets.append(f'[[target]]\nlabel = "{name}"\npath = "{folder / name}"\nsize = "8MiB"')
    study = study_of(folder, *targets, block_sizes='["4KiB"]', threads="[1, 4]", min="4", max="4")
    ended = seatrial("study", study, "--buffered", "--label", label, folder=folder)
    assert ended.code == 0, ended.err
    (reported,) = seatrial("compare", label, "--json", folder=folder).document["comparisons"]
    assert reported["paired"]
    assert len(reported["comparands"]) >= 4
    answers = [*reported["comparands"], *reported["overall_answers"].values()]
    is_reported = any(each["answer"] in ("higher", "lower") for each in answers)
    assert bool(reported["findings"]) == is_reported
    return is_reported


def test_two_directories_of_one_disk_show_no_false_difference(tmp_path):
    """A real A/A: the machine may be noisy, so undecided is allowed and different is not.

    One in twenty such comparisons may be wrong, and that is what is promised: only two in a row
    are a defect.
    """
    assert not (says_different(tmp_path, "first") and says_different(tmp_path, "again"))


@pytest.fixture(scope="module")
def place(measured, tmp_path_factory):
    """A folder with those runs, one on a larger device, and one of other cells."""
    folder = tmp_path_factory.mktemp("place")
    results = folder / "results.seatrial"
    results.write_bytes((measured / "results.seatrial").read_bytes())
    studies = tmp_path_factory.mktemp("studies")
    larger = study_of(studies, simulated("disk", size="128MiB"), name="larger.toml")
    unlike = study_of(studies, simulated("disk"), name="unlike.toml", block_sizes='["1MiB"]')
    for study in (larger, unlike):
        ended = seatrial(
            "study", study, "--label", study.stem, "--results", results, folder=studies
        )
        assert ended.code == 0, ended.err
    for report in folder.glob("*.html"):
        report.unlink()
    return folder


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("before", "before"), ("before and before are the same result",)),
        (("before", "before:disk"), ("before and before:disk are the same result",)),
        (("before", "after", "--aa", "before"), ("before and before are the same result",)),
        (("before", "after", "--aa", "after:disk"), ("are the same result",)),
        (("both", "--aa", "both:slow"), ("slow and both:slow are the same result",)),
        (("before",), ("one target", "seatrial compare BEFORE before")),
        (("before", "nowhere"), ("nowhere",)),
        (("before:disk", "before:tape"), ("no target 'tape'",)),
        (("before", "both"), ("both has several targets", "both:TARGET")),
        (("before", "unlike"), ("no test in common", "before has 4 tests", "unlike has 2 tests")),
        (("before", "larger"), ("used 64 MiB of its target, larger 128 MiB", "--anyway")),
        (("before", "after", "--figure", "speed"), ("No figure 'speed'",)),
        (("before", "after", "--figure", "iops", "--figure", "p99.9"), ("No figure 'p99.9' is",)),
        (("before", "after", "--margin", "0"), ()),
        (("before", "after", "--report", "absent/page.html"), ("absent/page.html",)),
        ((), ()),
    ],
    ids=lambda value: " ".join(value) or None,
)
def test_bad_input_is_one_sentence_and_exit_code_2(place, arguments, said):
    assert_refused(place, ["compare", *arguments], 2, *said)


def test_a_run_that_was_named_by_its_id_is_called_by_its_label():
    def named(name, label):
        run = msgspec.structs.replace(run_of(), label=label)
        return NamedResult(name=name, run=run, samples=[])

    run_id = run_of().id
    assert _names([named(run_id, "before"), named("last", "after")]) == ["before", "after"]
    assert _names([named(run_id, ""), named(f"{run_id}:ssd", "x")]) == [run_id, f"{run_id}:ssd"]
    assert _names([named(run_id, "same"), named("last", "same")]) == [run_id, "last"]


def test_what_forbids_a_comparison_can_be_overruled(place):
    ended = seatrial("compare", "--tables", "before", "larger", "--anyway", folder=place)
    assert ended.code == 0
    assert " ! before used 64 MiB of its target, larger 128 MiB" in ended.out
    assert "--tables" not in ended.out
    short = seatrial("compare", "before", "larger", "--anyway", folder=place)
    assert "add --tables" in short.out


def test_foreign_tables_are_compared_cell_by_cell(tmp_path):
    for name, factor in (("lvm2", 1.0), ("mdadm", 1.1)):
        rows = [
            f"{size},{threads},{round(59_000 * factor)}"
            for size in (512, 4096)
            for threads in (1, 10)
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join(["size,threads,iops", *rows]) + "\n")
    ended = seatrial("compare", "--tables", "lvm2.csv", "mdadm.csv", folder=tmp_path)
    assert ended.code == 0, ended.err
    assert "measured once" in ended.out
    assert re.search(r"mdadm is 1\.1x \(measured once\) as fast as lvm2 over 4 tests", ended.out)
    assert "time at which lvm2 and mdadm were measured is unknown" in " ".join(ended.out.split())


def test_files_of_one_name_are_distinguished_by_their_folders(tmp_path):
    for name, rate in (("before", 1000), ("after", 1100)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "fio.csv").write_text(f"size,threads,iops\n4096,1,{rate}\n")
    ended = seatrial("compare", "--tables", "before/fio.csv", "after/fio.csv", folder=tmp_path)
    assert ended.code == 0, ended.err
    assert "after/fio.csv is 1.1x (measured once) as fast as before/fio.csv" in ended.out
