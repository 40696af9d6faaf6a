"""A whole comparison: answers, warnings, what forbids it, and its sentence."""

import math

import msgspec
import pytest

from seatrial._core import Histogram
from seatrial.errors import UsageError
from seatrial.findings.comparison_answer import comparison_answer
from seatrial.findings.registry import find_in_comparison
from seatrial.results.model import OperationResult
from seatrial.stats.compare.comparison import compare
from seatrial.stats.compare.noise import control_label
from seatrial.stats.compare.verdict import losses, ratio_phrase
from seatrial.stats.estimate import Estimate
from stats.builders import cell_of, sample_of
from stats.compare.sides import cells_of, driver_sample, random_sides, side_of, side_with_rates

STEADY = [[1000, 1010, 990, 1005, 995]]


@pytest.mark.parametrize(
    ("value", "low", "high", "reported"),
    [
        (1.2512, 1.2478, 1.2551, "1.251x (1.248 to 1.255)"),
        (1.25, 1.213, 1.288, "1.25x (1.21 to 1.29)"),
        (0.8, 0.712, 0.9, "0.80x (0.71 to 0.90)"),
        (0.8041, 0.8039, 0.8043, "0.804x (± 0.1 %)"),
        (1.24, 0.13, 11.7, "1.2x (0.13 to 12)"),
        (0.00015, 0.00009, 0.00026, "0.00015x (0.000090 to 0.00026)"),
        (0.0953, 0.0949, 0.0957, "0.095x (0.095 to 0.096)"),
        (1.0, 0.0004, 2500.0, "1.0x (95 % CI wider than 10x)"),
        (1.25, None, None, "1.2x (no interval)"),
    ],
)
def test_ratios_are_reported_with_the_digits_that_they_know(value, low, high, reported):
    assert (
        ratio_phrase(Estimate(value=value, low=low, high=high, rounds=3, unit="ratio")) == reported
    )


def of(a, b, **how):
    (comparison,) = compare(a, [b], **how)
    return comparison


def scaled(rows, factor):
    return [[factor * rate for rate in row] for row in rows]


def times_of(rows, factors):
    return [[factor * rate for rate, factor in zip(row, factors, strict=True)] for row in rows]


NOISE = [1.01, 0.99, 1.0, 1.005, 0.995]


def interleaved(rows_a, rows_b, **more):
    return (
        side_with_rates("A", rows_a, run_id="one", **more),
        side_with_rates("B", rows_b, run_id="one", **more),
    )


def test_a_clear_difference_is_reported_with_its_interval():
    a, b = interleaved(STEADY, times_of(scaled(STEADY, 1.25), NOISE))
    reported = of(a, b)
    (rate,) = reported.comparands
    assert (rate.answer, rate.figure, rate.paired) == ("higher", "iops", True)
    assert rate.ratio.low < 1.25 < rate.ratio.high
    assert rate.p_adjusted < 0.001
    assert reported.verdict == "B is 1.25x (1.24 to 1.26) as fast as A in the only test."
    assert reported.warnings == []
    assert reported.overall_answers["iops"].answer == "higher"
    assert reported.overall["iops"] == rate.ratio


def test_equal_sides_are_the_same_within_a_whole_percent():
    rows = STEADY * 6
    reported = of(*interleaved(rows, [times_of([row], NOISE)[0] for row in rows]))
    assert {each.answer for each in reported.comparands} == {"same"}
    assert all(each.within_share <= reported.margin_share for each in reported.comparands)
    assert reported.verdict == (
        "No difference seen between A and B (within 2 %) over 6 tests; no test significantly "
        "faster or slower."
    )
    narrow = of(*interleaved(rows, [times_of([row], NOISE)[0] for row in rows]), margin_share=0.002)
    assert {each.answer for each in narrow.comparands} == {"undecided"}


def test_measured_once_cannot_be_reported():
    reported = of(*interleaved([[1000], [2000]], [[1250], [2500]]))
    assert [each.answer for each in reported.comparands] == ["undecided"] * 2
    assert [each.ratio.low for each in reported.comparands] == [None, None]
    assert [each.rounds_more for each in reported.comparands] == [None, None]
    assert "measured only once" in reported.warnings[0]
    assert reported.verdict == (
        "B is 1.2x (measured once) as fast as A over 2 tests: "
        "too few rounds to determine significance."
    )


def test_one_after_the_other_is_warned_of():
    a = side_with_rates("A", STEADY)
    reported = of(a, side_with_rates("B", STEADY, begin_s=10_000))
    assert not reported.paired
    assert "one after the other" in reported.warnings[0]
    assert not reported.comparands[0].paired


def test_pairs_see_through_a_drift_that_hides_the_difference_from_others():
    drift = [1.0, 1.3, 0.8, 1.1, 0.9]
    rows = times_of([[1000] * 5], drift)
    faster = times_of(scaled(rows, 1.1), NOISE)
    assert of(*interleaved(rows, faster)).comparands[0].answer == "higher"
    apart = of(side_with_rates("A", rows), side_with_rates("B", faster, begin_s=9999))
    assert apart.comparands[0].answer == "undecided"


def test_an_undecided_cell_says_how_many_rounds_would_settle_it():
    rows = [[1000, 1100, 950, 1050], [1000] * 4]
    other = [[1100, 1080, 1100, 1000], [1100, 1110, 1090, 1100]]
    reported = of(*interleaved(rows, other))
    open_cell, sure = reported.comparands
    assert (open_cell.answer, sure.answer) == ("undecided", "higher")
    assert 1 <= open_cell.rounds_more <= 100
    assert reported.verdict.endswith(
        f"1 figure is undecided, {open_cell.rounds_more} more rounds would decide it."
    )


def test_a_round_in_which_nothing_completed_is_said_and_not_hidden():
    a, b = interleaved(STEADY * 2, [STEADY[0], [1000, 0, 1000, 1000, 1000]])
    reported = of(a, b)
    broken = reported.comparands[1]
    assert broken.ratio.value == pytest.approx(0.8)
    assert (broken.answer, broken.ratio.low, broken.p_value) == ("undecided", None, None)
    assert reported.overall_answers["iops"].cells == 1
    assert reported.warnings[0].startswith(
        "On B nothing completed in at least one round of 1 test (matrix: "
    )


def test_what_was_zero_on_a_has_no_ratio():
    reported = of(*interleaved([[0, 0], [10, 10]], [[5, 5], [10, 10]]))
    assert [each.key for each in reported.comparands] == [cells_of(2)[1].key]
    assert reported.warnings[0].startswith("On A nothing completed")
    assert reported.blank_a == [cells_of(2)[0].key]
    assert reported.verdict.startswith("Nothing completed on A in 1 of 2 tests; ")
    assert "in 1 of 2 tests" in reported.verdict.partition(";")[2]
    assert comparison_answer([reported]).next_step.endswith("nothing completed on A.")
    only = of(*interleaved([[0, 0]], [[5, 5]]))
    assert only.comparands == []
    assert only.verdict == "Nothing completed on A in the only test."


def side_of_latencies(name, latencies_ns, count=200):
    samples = [
        sample_of(
            completed=count,
            response_ns=[value_ns] * (count - 4) + [10 * value_ns] * 4,
            round=number,
        )
        for number, value_ns in enumerate(latencies_ns)
    ]
    return side_of(name, samples, run_id="one")


def test_percentiles_are_compared_where_every_round_knows_them():
    a = side_of_latencies("A", [1_000_000] * 4)
    b = side_of_latencies("B", [1_500_000, 1_510_000, 1_490_000, 1_500_000])
    reported = of(a, b)
    assert [each.figure for each in reported.comparands] == ["iops", "read p50"]
    median = reported.comparands[1]
    assert (median.answer, median.a.unit) == ("higher", "ns")
    assert median.ratio.value == pytest.approx(1.5, rel=0.01)
    assert "read p50 is 1.5" in reported.verdict
    many = of(
        side_of_latencies("A", [1_000_000] * 4, 1000), side_of_latencies("B", [10**6] * 4, 1000)
    )
    assert [each.figure for each in many.comparands] == ["iops", "read p50", "read p99"]


def test_foreign_latencies_are_taken_as_reported():
    samples = {
        name: [driver_sample(cell_of(), number, 1000, {"p50": p50, "p99": 2 * p50})
               for number in range(3)]
        for name, p50 in (("A", 100.0), ("B", 200.0))
    }  # fmt: skip
    reported = of(*(side_of(name, own, run_id="one") for name, own in samples.items()))
    ratios = {each.figure: each.ratio.value for each in reported.comparands}
    assert ratios == pytest.approx({"iops": 1.0, "read p50": 2.0, "read p99": 2.0})


def test_figures_can_be_chosen_by_name():
    a, b = random_sides(1, cells=2, rounds=3, noise=0.05, paired=True)
    assert set(of(a, b, figures=["iops"]).overall) == {"iops"}
    assert set(of(a, b, figures=["p99"]).overall) == {"read p99"}
    assert set(of(a, b, figures=["read p50", "iops"]).overall) == {"iops", "read p50"}


def test_bandwidth_is_compared_where_sizes_vary():
    cell = cell_of(block_size_bytes=0)
    part = OperationResult(
        completed=10, failed=0, transferred_bytes=5 << 20, response=Histogram.of([]).encode()
    )
    samples = [
        msgspec.structs.replace(
            sample_of(cell, completed=10, round=number), operations={"read": part}
        )
        for number in range(2)
    ]
    reported = of(*(side_of(name, samples, run_id="one") for name in "AB"))
    assert set(reported.overall) == {"iops", "bandwidth"}


def test_several_are_judged_at_once():
    a = side_with_rates("A", STEADY, run_id="one")
    nearly = times_of(scaled(STEADY, 1.02), [1.02, 0.98, 1.0, 1.01, 0.99])
    one = of(a, side_with_rates("B", nearly, run_id="one")).comparands[0]
    others = [side_with_rates(name, nearly, run_id="one") for name in "BCD"]
    several = [reported.comparands[0] for reported in compare(a, others)]
    assert one.p_value == pytest.approx(several[0].p_value)
    assert several[0].p_adjusted == pytest.approx(3 * one.p_adjusted)
    assert several[0].ratio.low < one.ratio.low


def test_differences_no_larger_than_an_aa_pair_are_not_real():
    a, b = interleaved(STEADY * 2, times_of(scaled(STEADY * 2, 1.1), NOISE))
    assert of(a, b).comparands[0].answer == "higher"
    control = side_with_rates("A2", scaled(STEADY * 2, 1.15), run_id="one")
    reported = of(a, b, control=control)
    assert reported.noise_share == pytest.approx(0.15, rel=0.02)
    assert {each.answer for each in reported.comparands} == {"undecided"}
    assert all(each.below_noise and each.rounds_more is None for each in reported.comparands)
    assert reported.overall_answers["iops"].below_noise
    assert reported.verdict.startswith("Undecided: B is 1.1")
    assert "within the noise floor of the A/A control" in reported.verdict
    assert any("A2, an A/A control" in each for each in reported.warnings)
    quiet_control = side_with_rates("A2", scaled(STEADY * 2, 1.001), run_id="one")
    assert of(a, b, control=quiet_control).comparands[0].answer == "higher"


def test_halves_report_the_scatter_of_the_rounds():
    seen = []
    for seed in range(20):
        a, b = random_sides(seed, cells=30, rounds=8, noise=0.05, paired=True)
        reported = of(a, b, figures=["iops"])
        assert reported.noise.source == "halves"
        assert reported.noise_share is None
        seen.append(reported.noise.cells["iops"])
    # Rates of 8 rounds, each with 5 % of scatter and 10 % of drift, that are not paired.
    spread = math.sqrt(0.05**2 + 0.10**2) * math.sqrt(2 / 8)
    assert sum(seen) / len(seen) == pytest.approx(1.96 * spread, rel=0.35)
    assert of(*interleaved([[1]], [[2]])).noise is None


@pytest.mark.parametrize(
    ("labels", "paths", "control"),
    [
        (["ssd", "ssd-aa", "hdd"], ["", "", ""], "ssd-aa"),
        (["ssd", "again", "hdd"], ["/mnt/ssd", "/mnt/ssd", "/mnt/hdd"], "again"),
        (["ssd", "hdd"], ["/mnt/ssd", "/mnt/hdd"], ""),
        (["one"], [""], ""),
    ],
)
def test_the_control_of_the_first_target(labels, paths, control):
    assert control_label(labels, paths) == control


def sized(
    name, *, size_bytes=1 << 30, direct=True, data="random", engine="psync", sync_kind="fsync"
):
    cell = cell_of(size_bytes=size_bytes, direct=direct, sync_every=4, sync_kind=sync_kind)
    cell = msgspec.structs.replace(cell, spec=cell.spec | {"data": {"kind": data}})
    return side_of(name, [sample_of(cell, engine=engine, round=number) for number in range(2)])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"size_bytes": 2 << 30}, "A used 1 GiB of its target, B 2 GiB"),
        ({"size_bytes": (1 << 30) + 512}, "A used 1073741824 bytes of its target"),
        ({"direct": False}, "A used direct I/O (O_DIRECT), B the page cache"),
        ({"sync_kind": "fdatasync"}, "A called fsync after writes, B fdatasync"),
        ({"data": "zeros"}, "A wrote 'random' data, B 'zeros' data"),
        ({"engine": "simulated"}, "A was measured on a real target, B on a simulated target"),
    ],
)
def test_what_forbids_a_comparison(change, said):
    a, b = sized("A"), sized("B", **change)
    with pytest.raises(UsageError) as raised:
        compare(a, [b])
    assert said in str(raised.value)
    assert "--anyway" in raised.value.next_step
    reported = of(a, b, anyway=True)
    assert said in reported.warnings[0]


def test_parts_that_fio_gives_its_threads_are_whole_blocks():
    a, b = sized("A"), sized("B", size_bytes=(1 << 30) - 4096)
    (sample, *_) = b.samples
    cell = msgspec.structs.replace(
        sample.cell, spec=sample.cell.spec | {"fio_options": {"offset_increment": "1"}}
    )
    threaded = msgspec.structs.replace(cell, threads=2)
    split = side_of("B", [sample_of(threaded, round=number) for number in range(2)])
    assert not any("of its target" in each for each in of(a, split, anyway=True).warnings)
    assert "of its target" in of(a, b, anyway=True).warnings[0]


def test_samples_of_other_length_are_warned_of():
    lengths = {"A": 1.0, "B": 10.0}
    a, b = (
        side_of(name, [sample_of(duration_s=length_s, round=number) for number in range(2)],
                   run_id="one")
        for name, length_s in lengths.items()
    )  # fmt: skip
    assert any("Samples last 1.0 s on A and 10 s on B" in each for each in of(a, b).warnings)


def test_cells_of_one_side_and_partial_runs_are_said():
    a = side_with_rates("A", STEADY * 2, run_id="one", status="interrupted")
    b = side_with_rates("B", STEADY, run_id="one")
    warnings = " ".join(of(a, b).warnings)
    assert "A is a partial result: its run is interrupted." in warnings
    assert "1 test of A (matrix: read 8 KiB, 2 threads) has no counterpart on B." in warnings


SCHEDULED = cell_of(workload="io", arrival={"kind": "poisson", "rate_per_s": 1000.0})


def overloaded(name, *, skipped=0, cell=SCHEDULED):
    """Two seconds at 1,000 requests a second, of which 2 % take long and some are skipped."""
    slow_ns = (1900 if skipped else 3) * 1_000_000
    times_ns = [2_000_000] * (1960 - skipped) + [slow_ns] * 40
    return side_of(
        name,
        [
            sample_of(
                cell,
                completed=len(times_ns),
                late_skipped=skipped,
                round=number,
                duration_s=2.0,
                response_ns=times_ns,
            )
            for number in range(5)
        ],
        run_id="one",
    )


def test_a_percentile_that_unanswered_requests_hide_is_named():
    reported = of(overloaded("A"), overloaded("B", skipped=41), figures=["p99"])
    (lost,) = reported.one_sided
    assert (lost.figure, lost.known_on, lost.unanswered) == ("read p99", "a", 41)
    assert lost.at_least.value > 1e9
    assert lost.is_lost
    assert any("B left 41 requests unanswered" in each for each in reported.warnings)
    assert "unknown on B" in reported.verdict
    better = of(overloaded("A", skipped=41), overloaded("B"))
    assert [each.known_on for each in better.one_sided] == ["b"]
    assert not any(each.is_lost for each in better.one_sided)


@pytest.mark.parametrize(("failed", "is_lost"), [(0, False), (3, True)])
def test_a_kind_that_did_not_occur_on_b_is_not_lost(failed, is_lost):
    cell = cell_of(operation="write", sync_every=1000)
    synced = sample_of(completed=25).operations["read"]
    none = sample_of(completed=0, failed=failed).operations["read"]
    sides = []
    for name, part in (("A", synced), ("B", none)):
        written = [sample_of(cell, completed=1000, round=number) for number in range(5)]
        kinds = {"sync": part} if part.completed or part.failed else {}
        samples = [
            msgspec.structs.replace(each, operations=each.operations | kinds) for each in written
        ]
        sides.append(side_of(name, samples, run_id="one"))
    reported = of(*sides)
    (unknown,) = reported.one_sided
    assert (unknown.figure, unknown.is_lost) == ("sync p50", is_lost)
    assert bool(losses(reported)) is is_lost


def test_two_runs_of_several_targets_of_which_a_test_is_blank_are_compared():
    sides = [
        side_of(name, [sample_of(cell_of(target=each), completed=count) for each in ("x", "y")])
        for name, count in (("A", 1000), ("B", 0))
    ]
    assert "nothing completed in at least one round of 2 tests" in of(*sides).warnings[0]


def test_a_side_of_several_targets_is_told_to_name_one():
    a = side_of("A", [sample_of(cell_of(target=each)) for each in ("x", "y")])
    a.samples.append(sample_of(cell_of(target="x", threads=2)))
    b = side_of("B", [sample_of(cell_of(threads=each)) for each in (1, 2)])
    assert any("A:TARGET" in each and "B:TARGET" not in each for each in of(a, b).warnings)


def test_a_percentile_of_too_few_requests_is_named_but_not_worse():
    sides = [
        side_of(name, [sample_of(completed=count, round=n) for n in range(3)], run_id="one")
        for name, count in (("A", 1000), ("B", 999))
    ]
    reported = of(*sides)
    (unknown,) = reported.one_sided
    assert (unknown.figure, unknown.unanswered, unknown.is_lost) == ("read p99", 0, False)
    assert any("read p99" in each and "too few" in each for each in reported.warnings)


def test_percentiles_of_another_tool_are_left_out_without_a_warning():
    cell = cell_of()
    own = side_of("A", [sample_of(cell, round=0)])
    (foreign,) = [driver_sample(cell, 0, 1000.0, {"p50": 1e6, "p99": 2e6})]
    foreign = msgspec.structs.replace(foreign, engine="imported")
    assert of(own, side_of("B", [foreign])).one_sided == []


def test_a_test_that_completes_nothing_on_b_is_lower_and_said_first():
    rows_b = [row[:] for row in STEADY * 2]
    rows_b[1] = [0] * 5
    reported = of(*interleaved(STEADY * 2, rows_b))
    assert [each.answer for each in reported.comparands] == ["same", "lower"]
    assert reported.verdict.startswith("Nothing completed on B in 1 of 2 tests; ")
    assert "in 1 of 2 tests" in reported.verdict.partition(";")[2]
    assert ratio_phrase(reported.comparands[1].ratio).startswith("0x")
    (finding,) = find_in_comparison(reported)
    assert (finding.kind, finding.severity) == ("regressed", "warning")
    assert finding.evidence["change_share_max"] is None
    assert "nothing completed in 1 of 2 tests" in finding.sentence
    assert "significant in" not in finding.sentence
    dead = of(*interleaved(STEADY * 2, [[0] * 5] * 2))
    assert dead.verdict == "Nothing completed on B in 2 of 2 tests."
    partly = of(*interleaved(STEADY, [[0, 0, 0, 0, 990]]))
    assert [each.answer for each in partly.comparands] == ["undecided"]
