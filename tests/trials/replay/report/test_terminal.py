"""What ``seatrial sql replay`` prints first: the verdict, and what to do about it."""

from __future__ import annotations

from msgspec.structs import replace

from results.replay_records import WELL, error, with_errors
from seatrial.stats.estimate import Estimate
from seatrial.study.cell import Cell
from seatrial.trials.replay.analysis.model import Bottleneck, ReplayCell
from seatrial.trials.replay.analysis.verdict import judge
from seatrial.trials.replay.report.terminal import verdict_text

ONCE = Estimate(value=8198.0, low=None, high=None, rounds=1, unit="statements/s")
OFTEN = Estimate(value=8198.0, low=8010.0, high=8350.0, rounds=5, unit="statements/s")
RATIO = Estimate(value=41.2, low=None, high=None, rounds=1, unit="ratio")
CELL = ReplayCell(
    cell=Cell(
        key="replay/statement",
        target="target",
        workload="replay",
        kind="replay",
        operation="statement",
        block_size_bytes=0,
        threads=8,
    ),
    speed=None,
    bottleneck=Bottleneck(who="locks", bound="lock", sentence="Locks.", evidence={}),
    answered_per_s=ONCE,
    captured_per_s=199.0,
    ratio=RATIO,
    delivered=None,
    lateness=None,
    client_core_share=0.34,
    client_delay_share=0.0,
    ceiling_per_s=None,
    ceiling_share=None,
    order_share=None,
    reported_round=0,
)


def reported(record, rate=ONCE, ratio=RATIO) -> str:
    cell = replace(CELL, answered_per_s=rate, ratio=ratio)
    return " ".join(verdict_text(judge(record), cell).split())


def test_the_first_sentence_is_the_verdict():
    assert reported(WELL) == (
        "1,100 of 1,100 statements were sent, 0 new errors: 8,200 statements/s (measured once: no "
        "interval), 41x the captured rate."
    )


def test_several_rounds_have_an_interval():
    assert "8,200 statements/s (95 % 8,000 to 8,400), 41x the captured rate" in reported(
        WELL, OFTEN
    )


def test_a_trace_without_times_is_compared_with_nothing():
    assert reported(WELL, ratio=None).endswith("(measured once: no interval).")


def test_what_went_wrong_comes_first_with_what_to_do():
    record = with_errors(error("new", now="42P01", count=12))
    text = reported(record)
    assert text.startswith("Objects used by 12 statements are missing in the database (42P01:")
    advice = "try: Replay on a restore of the captured database to the start of the capture."
    assert advice in text
    assert "! More errors than in the capture: 12 with 42P01." in text
    assert "statements/s" not in text


def test_without_a_figure_there_is_still_a_verdict():
    assert verdict_text(judge(WELL), None) == "1,100 of 1,100 statements were sent, 0 new errors."
