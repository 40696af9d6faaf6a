"""A drive brought to its steady state, and the proof that it is there.

Workload-independent conditioning first (a fill or two), then rounds of the workload itself until
its rate is steady: sections 2.2 and 3 of SNIA's Solid State Storage Performance Test Specification
(PTS) 2.0.2. What steady means is the analysis's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from seatrial.errors import TargetError
from seatrial.measure.progress import TimeLeft
from seatrial.measure.recorder import COMPLETE, INTERRUPTED, Interrupted, Recorder, RoundsEnd
from seatrial.results.model import Sample
from seatrial.study.cell import Cell
from seatrial.study.estimate import cell_time_s
from seatrial.study.model import Plan
from seatrial.study.plan import order
from seatrial.study.units import format_size

ROUNDS_MAX: Final = 25
"""SNIA's own bound: what is not steady by then is reported as such."""

ROUNDS_MIN: Final = 5
"""SNIA's window: fewer rounds cannot be judged."""

OVER_PROVISIONING_DEFAULT: Final = 0.07
OVER_PROVISIONING_MAX: Final = 0.5


class Verdict(Protocol):
    """What a rule says of the rates of a workload's rounds."""

    @property
    def met(self) -> bool:
        """Whether they are steady."""

    @property
    def sentence(self) -> str:
        """Why, with figures."""


Steady = Callable[[Sequence[float]], Verdict]
"""Judges the rates (per second) of a workload's rounds, in their order."""


def guessed_over_provisioning(drive_bytes: int | None) -> float:
    """Return how much flash a drive of that capacity probably has beyond it, as a share of it.

    Flash comes in powers of two (GiB), capacities are rounded down from there: of 1,024 GiB a drive
    offers 1,000 GB (10 %), 960 GB (15 %) or 800 GB (37 %). Where the next power of two is more than
    half as much again, or the capacity is not known, the 7 % between a GB and a GiB are returned:
    what every drive keeps back at least. It is a guess; only the proof tells.
    """
    if not drive_bytes:
        return OVER_PROVISIONING_DEFAULT
    flash_bytes = 1 << (drive_bytes - 1).bit_length()
    share = flash_bytes / drive_bytes - 1
    return (
        share
        if OVER_PROVISIONING_DEFAULT < share <= OVER_PROVISIONING_MAX
        else (OVER_PROVISIONING_DEFAULT)
    )


class Conditioning:
    """The way through a plan of fills and proofs; a strategy that remembers what it found.

    Args:
        steady: Judges a workload's rates.
        discards: Whether devices are trimmed before the first fill.

    Attributes:
        is_steady: Whether the proof succeeded; False until it did.
    """

    def __init__(self, steady: Steady, *, discards: bool) -> None:
        self._steady = steady
        self._discards = discards
        self._rates_per_s: dict[str, list[float]] = {}
        self.is_steady = False

    def __call__(self, recorder: Recorder) -> RoundsEnd:
        """Fill, then prove; an interrupt ends it in order, without the cell in flight.

        Raises:
            TargetError: when the target cannot be written whole, or goes away.
        """
        try:
            self._fill(recorder)
            return RoundsEnd(status=COMPLETE, reason=self._prove(recorder))
        except (Interrupted, KeyboardInterrupt):
            reason = "It was interrupted: the target is conditioned in part, and nothing is proven."
            return RoundsEnd(status=INTERRUPTED, reason=reason)

    def _fill(self, recorder: Recorder) -> None:
        plan = recorder.plan
        for position, cell in enumerate(_fills(plan)):
            notes = {}
            if position == 0 and self._discards:
                notes["discarded_bytes"] = float(recorder.discard(cell.target))
            left_s = sum(map(cell_time_s, _fills(plan)[position:])) + _proofs_s(plan)
            left = _time_left(cell, left_s)
            sample = recorder.measure(cell, 0, position, time_left=left, notes=notes)
            _require_whole(cell, sample)

    def _prove(self, recorder: Recorder) -> str:
        """Measure rounds until every workload is steady; return what came of it."""
        plan = recorder.plan
        proofs = [cell.key for cell in plan.cells if cell.kind != "fill"]
        for number in range(plan.study.rounds.max):
            in_order = order(plan, number, proofs)
            for position, cell in enumerate(in_order):
                left_s = sum(map(cell_time_s, in_order[position:])) + _proofs_s(plan, number + 1)
                left = _time_left(cell, left_s)
                sample = recorder.measure(
                    cell, number, len(_fills(plan)) + position, time_left=left
                )
                self._rates_per_s.setdefault(cell.key, []).append(_rate_per_s(sample))
            verdicts = {key: self._steady(self._rates_per_s[key]) for key in proofs}
            self.is_steady = all(verdict.met for verdict in verdicts.values())
            if self.is_steady:
                break
        rounds = number + 1
        head = f"Steady within {rounds}" if self.is_steady else f"Not steady after {rounds}"
        reported = " ".join(self._reported(key, verdict) for key, verdict in verdicts.items())
        return f"{head} rounds of the proof. {reported}"

    def _reported(self, key: str, verdict: Verdict) -> str:
        """Return what was seen of one workload: the rule, and how its first round compares."""
        rates_per_s = self._rates_per_s[key]
        last_per_s = sum(rates_per_s[-ROUNDS_MIN:]) / len(rates_per_s[-ROUNDS_MIN:])
        if not last_per_s:
            return f"{key}: nothing completed in the last rounds."
        first = f"the first round ran at {100 * rates_per_s[0] / last_per_s:.0f} % of their mean"
        return f"{key}: {verdict.sentence.rstrip('.')}; {first}."


def _fills(plan: Plan) -> list[Cell]:
    return [cell for cell in plan.cells if cell.kind == "fill"]


def _proofs_s(plan: Plan, done: int = 0) -> float:
    """Return what the proof takes at most after so many rounds of it (s)."""
    proofs = [cell for cell in plan.cells if cell.kind != "fill"]
    return (plan.study.rounds.max - done) * sum(map(cell_time_s, proofs))


def _time_left(cell: Cell, most_s: float) -> TimeLeft:
    return TimeLeft(most_s=most_s, cell_s=cell_time_s(cell), may_end_sooner=True)


def _rate_per_s(sample: Sample) -> float:
    return sample.outcome.completed / sample.duration_s


def _require_whole(cell: Cell, sample: Sample) -> None:
    """Check that a fill wrote all that it was to write.

    Raises:
        TargetError: when it did not: what follows would be measured on a target half fresh.
    """
    written_bytes = sum(part.transferred_bytes for part in sample.operations.values())
    wanted_bytes = int(cell.spec["limit"]["bytes"])
    if written_bytes >= wanted_bytes:
        return
    names = ", ".join(sorted({error.name for error in sample.errors})) or "it took too long"
    raise TargetError(
        seen=f"{cell.workload} wrote {format_size(written_bytes)} of "
        f"{format_size(wanted_bytes)}: {names}",
        cause="The target failed while it was being filled, ran out of space, or needs more than "
        "a day",
        next_step="Look at the kernel's log with `dmesg`, or condition a part of it with --size",
    )
