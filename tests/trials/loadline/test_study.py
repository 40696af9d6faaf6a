"""Load lines in a study file: keys, cells, what a plan says of them, and what is refused."""

from __future__ import annotations

import pytest

from seatrial.errors import StudyError
from seatrial.study.cost import estimate, target_write_bytes
from seatrial.study.load import parse_study
from seatrial.study.plan import make_plan, order
from seatrial.trials.loadline.study import SAMPLES_MAX, at_rate, parse_latency_ns, template_key

IO = '[[workload]]\nkind = "io"\nseconds = 1\n'


def planned(*lines, more=""):
    text = "\n".join(['name = "n"', "[[workload]]", 'kind = "loadline"', 'limit = "5ms"', *lines])
    return make_plan(parse_study(f"{text}\n{more}", "n.toml"))


@pytest.mark.parametrize(
    ("written", "latency_ns"),
    [("5ms", 5_000_000), ("250us", 250_000), ("250 µs", 250_000), ("1.5s", 1_500_000_000),
     ("800ns", 800), (" 2ms ", 2_000_000)],
)  # fmt: skip
def test_a_latency_has_a_unit(written, latency_ns):
    assert parse_latency_ns(written) == latency_ns


@pytest.mark.parametrize("written", ["5", "5.0", "", "ms", "-5ms", "0ms", "0.1ns", "5min", "5 m s"])
def test_what_is_no_latency_is_refused(written):
    with pytest.raises(ValueError, match=r"\w"):
        parse_latency_ns(written)


def test_a_budget_has_samples_that_are_longer_than_a_queue_takes():
    with pytest.raises(StudyError, match="too short for a limit of 5ms"):
        planned("seconds = 0.01", "budget_seconds = 0.11")
    assert planned("seconds = 0.01", "budget_seconds = 0.13").cells


def test_the_plan_has_the_closed_loop_and_says_what_follows():
    plan = planned(more=IO)
    line, other = plan.cells
    assert line.key == "loadline/read/8192B/4t/32d"
    assert line.spec["arrival"] == {"kind": "closed"}
    assert any("p99 <= 5ms in at most 80 samples and 1 min" in note for note in plan.notes)
    assert order(plan, 0, [line.key, other.key]) == [other], "it is not part of the rounds"


def test_the_plan_counts_its_budget_and_the_most_that_it_may_write():
    seconds = {"min": 3, "max": 10}
    took = estimate(planned("budget_seconds = 90", more=IO))
    assert took.time_s_max - seconds["max"] * 1.05 == pytest.approx(90, abs=6)
    assert took.time_s_min - seconds["min"] * 1.05 == pytest.approx(90, abs=6)
    plan = planned('operations = "write"', 'limit_bytes = "1MiB"')
    filled = sum(file.size_bytes for file in plan.files if file.prefill)
    assert target_write_bytes(plan, "trial", 1) == filled + SAMPLES_MAX * (1 << 20)


def test_a_cell_at_a_rate_is_the_template_under_a_schedule():
    (template,) = planned("sync_every = 0").cells
    cell = at_rate(template, "fixed", 1_230.0, 2.5)
    assert cell.key == "loadline/read/8192B/4t/32d/arrival=fixed/rate=1230"
    assert cell.spec["arrival"] == {"kind": "fixed", "rate_per_s": 1_230.0}
    assert cell.spec["limit"]["duration_s"] == 2.5
    assert cell.factors["rate"] == 1_230.0
    assert template_key(cell) == template_key(template) == template.key


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["rate = 100"], "A load line searches for its rates itself"),
        (["burst = 4"], "A load line searches for its rates itself"),
        (['arrival = "bursts"'], "Valid values: fixed, poisson"),
        (['percentile = "p98"'], "p99"),
        (["threads = [1, 4]"], "A load line takes one value per key"),
        (['block_sizes = ["4k", "8k"]'], "A load line takes one value per key"),
        (["seconds = 10"], "less than 10 samples of 10 s"),
        (["read_share = 0.5"], "It applies only with operations = 'mixed'"),
        (["[thresholds]", '"loadline.p99_ms" = "< 5"'], "A load line supports sustained_per_s"),
    ],
)
def test_what_makes_no_sense_is_reported_with_its_key(lines, message):
    with pytest.raises(StudyError, match=r"n\.toml, line \d+") as caught:
        planned(*lines)
    assert message in str(caught.value)


def test_a_limit_must_be_given_and_be_one():
    for limit, message in (("", "has no 'limit'"), ('limit = "5"', "has no unit")):
        text = f'name = "n"\n[[workload]]\nkind = "loadline"\n{limit}\n'
        with pytest.raises(StudyError, match=message):
            parse_study(text, "n.toml")


def test_only_a_load_line_sustains():
    with pytest.raises(StudyError, match="Only a load line has sustained_per_s"):
        planned(more=f'{IO}[thresholds]\n"io.sustained_per_s" = "> 5"\n')
    plan = planned("[thresholds]", '"loadline.sustained_per_s" = ">= 5000"')
    assert plan.study.thresholds[0].base_unit == "IOPS"
