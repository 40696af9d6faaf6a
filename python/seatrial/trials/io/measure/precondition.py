"""Preconditioning of a drive to steady state, with verification.

Workload-independent preconditioning first (one or two fills), then rounds of the workload until its
rate is steady: sections 2.2 and 3 of SNIA's Solid State Storage Performance Test Specification
(PTS) 2.0.2. The analysis defines what steady means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final, Literal, Protocol

import msgspec

from seatrial.errors import TargetError
from seatrial.fingerprint import Health
from seatrial.measure.progress import TimeLeft
from seatrial.measure.recorder import COMPLETE, INTERRUPTED, Interrupted, Recorder, RoundsResult
from seatrial.published import FLATTENED, Amount, Count, one_of
from seatrial.report.exports.json_document import Document
from seatrial.results.model import Sample
from seatrial.stats.wording import format_share
from seatrial.study.cell import Cell
from seatrial.study.cost import OVERHEAD_S, cell_time_s
from seatrial.study.layouts.cost import ASSUMED_BYTES_PER_S
from seatrial.study.model import Plan
from seatrial.study.plan import order
from seatrial.study.units import format_seconds, format_size
from seatrial.trials.io.steady_state import rate_per_s

ROUNDS_MAX: Final = 25
"""SNIA's limit: a target that is not steady by then is reported as such."""

ROUNDS_MIN: Final = 5
"""SNIA's window: fewer rounds cannot be judged."""

OVER_PROVISIONING_DEFAULT: Final = 0.07
OVER_PROVISIONING_MAX: Final = 0.5


class Verdict(Protocol):
    """The result of a steady-state rule for the rates of a workload's rounds."""

    @property
    def met(self) -> bool:
        """Whether they are steady."""

    @property
    def sentence(self) -> str:
        """The reason, with figures."""


Steady = Callable[[Sequence[float]], Verdict]
"""Judges the rates (per second) of a workload's rounds, in their order."""


def guessed_over_provisioning(drive_bytes: int | None) -> float:
    """Return the probable over-provisioning of a drive, as a share of its capacity.

    Flash comes in powers of two (GiB), and capacities are rounded down: with 1,024 GiB a drive
    offers 1,000 GB (10 %), 960 GB (15 %) or 800 GB (37 %). If the next power of two is more than 50
    % larger, or the capacity is unknown, this returns 7 %, the difference between a GB and a GiB
    and the minimum of every drive. This is a guess; the steady-state test verifies it.
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
    """The strategy for a plan of fills and steady-state tests; keeps the result.

    Args:
        steady: Judges a workload's rates.
        discards: Whether devices are trimmed before the first fill.

    Attributes:
        is_steady: Whether steady state was reached; False until then.
    """

    def __init__(self, steady: Steady, *, discards: bool) -> None:
        self._steady = steady
        self._discards = discards
        self._rates_per_s: dict[str, list[float]] = {}
        self.is_steady = False

    def __call__(self, recorder: Recorder) -> RoundsResult:
        """Fill, then test for steady state; an interrupt discards the cell in flight.

        Raises:
            TargetError: if the target cannot be filled completely, or disappears.
        """
        try:
            self._fill(recorder)
            return RoundsResult(status=COMPLETE, reason=self._prove(recorder))
        except (Interrupted, KeyboardInterrupt):
            reason = "Interrupted: the target is only partially preconditioned, not verified."
            return RoundsResult(status=INTERRUPTED, reason=reason)

    def _fill(self, recorder: Recorder) -> None:
        plan = recorder.plan
        for position, cell in enumerate(_fills(plan)):
            notes = {}
            if position == 0 and self._discards:
                notes["discarded_bytes"] = float(recorder.discard(cell.target))
            left_s = sum(map(cell_time_s, _fills(plan)[position:])) + _proofs_s(plan)
            left = _time_left(cell, left_s)
            sample = recorder.measure(cell, 0, position, time_left=left, notes=notes)
            _require_complete(cell, sample)

    def _prove(self, recorder: Recorder) -> str:
        """Measure rounds until every workload is steady; return the result in words."""
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
                self._rates_per_s.setdefault(cell.key, []).append(rate_per_s(sample))
            verdicts = {key: self._steady(self._rates_per_s[key]) for key in proofs}
            self.is_steady = all(verdict.met for verdict in verdicts.values())
            if self.is_steady:
                break
        rounds = number + 1
        head = f"Steady within {rounds}" if self.is_steady else f"Not steady after {rounds}"
        text = " ".join(self._reported(key, verdict) for key, verdict in verdicts.items())
        return f"{head} rounds of the steady-state test. {text}"

    def _reported(self, key: str, verdict: Verdict) -> str:
        """Return the result of one workload: the rule, and its first round for comparison."""
        rates_per_s = self._rates_per_s[key]
        last_per_s = sum(rates_per_s[-ROUNDS_MIN:]) / len(rates_per_s[-ROUNDS_MIN:])
        if not last_per_s:
            return f"{key}: no request completed in the last rounds."
        first = f"the first round ran at {100 * rates_per_s[0] / last_per_s:.0f} % of their mean"
        return f"{key}: {verdict.sentence.rstrip('.')}; {first}."


def _fills(plan: Plan) -> list[Cell]:
    return [cell for cell in plan.cells if cell.kind == "fill"]


def _proofs_s(plan: Plan, done: int = 0) -> float:
    """Return the maximum remaining time of the steady-state test after some rounds (s)."""
    proofs = [cell for cell in plan.cells if cell.kind != "fill"]
    return (plan.study.rounds.max - done) * sum(map(cell_time_s, proofs))


def _time_left(cell: Cell, most_s: float) -> TimeLeft:
    return TimeLeft(most_s=most_s, cell_s=cell_time_s(cell), may_end_sooner=True)


def _require_complete(cell: Cell, sample: Sample) -> None:
    """Check that a fill was complete.

    Raises:
        TargetError: if it was not: later measurements would be on a partially fresh target.
    """
    written_bytes = sum(part.transferred_bytes for part in sample.operations.values())
    required_bytes = cell.parsed.limit.bytes or 0
    if written_bytes >= required_bytes:
        return
    names = ", ".join(sorted({error.name for error in sample.errors})) or "it took too long"
    raise TargetError(
        seen=f"{cell.workload} wrote {format_size(written_bytes)} of "
        f"{format_size(required_bytes)}: {names}",
        cause="The target failed during the fill, ran out of space, or takes more than a day",
        next_step="Read the kernel log with `dmesg`, or precondition a part of it with --size",
    )


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of preconditioning: bytes written, time and endurance.

    Attributes:
        method: ``snia`` or ``one-pass``.
        over_provisioning_share: Over-provisioning assumed by the one pass; None for other methods.
        target: Path of the target, or its kind.
        size_bytes: Size of the preconditioned range.
        drive_bytes: Capacity of the drives behind it; None if unknown.
        fill_bytes: Bytes written by the fills.
        proof_bytes_max: Maximum bytes written by the steady-state test, in all rounds.
        proof_rounds_max: Maximum rounds of the steady-state test.
        drive_writes: Bytes of the fills over the drives' capacity; None if that is unknown.
        drive_writes_max: The same, including the longest steady-state test.
        fill_s: Time of the fills at an assumed 250 MB/s; 0 on a virtual clock.
        proof_s_min: Time of the shortest steady-state test, five rounds.
        proof_s_max: Time of the longest one.
        used_percent: Share of the rated endurance used, from SMART; None if unknown.
        life_percent_max: Maximum share that fills and steady-state test will use, at the drive's
            rate so far; None if unknown.
        notes: Further notes for the reader.
    """

    method: Annotated[str, one_of("snia", "one-pass")]
    over_provisioning_share: Amount | None
    target: str
    size_bytes: Count
    drive_bytes: Count | None
    fill_bytes: Count
    proof_bytes_max: Count
    proof_rounds_max: Count
    drive_writes: Amount | None
    drive_writes_max: Amount | None
    fill_s: Amount
    proof_s_min: Amount
    proof_s_max: Amount
    used_percent: Amount | None
    life_percent_max: Amount | None
    notes: list[str]


class PreconditionDocument(Document, frozen=True, kw_only=True):
    """The cost of preconditioning.

    ``seatrial precondition`` with ``--plan``. Nothing was written.

    Attributes:
        cost: The cost.
    """

    kind: Literal["precondition"] = "precondition"
    cost: Annotated[Cost, FLATTENED]


def cost_of(plan: Plan, method: str, health: Mapping[str, Health]) -> Cost:
    """Return the cost of a plan of fills and steady-state tests.

    Args:
        plan: The plan, for one target.
        method: ``snia`` or ``one-pass``.
        health: Health of the devices, by name, from the fingerprint.
    """
    (target,) = plan.targets
    fills = [cell for cell in plan.cells if cell.kind == "fill"]
    proofs = [cell for cell in plan.cells if cell.kind != "fill"]
    rounds = plan.study.rounds.max
    fill_bytes = sum((cell.parsed.limit.bytes or 0) for cell in fills)
    round_bytes = sum((cell.parsed.limit.bytes or 0) for cell in proofs)
    is_virtual = target.kind == "simulated"
    round_s = sum(OVERHEAD_S if is_virtual else cell.parsed.duration_s for cell in proofs)
    drive_bytes = target.size_bytes if is_virtual else target.drive_bytes
    most_bytes = fill_bytes + rounds * round_bytes
    used_percent, life_percent = _life(health, most_bytes)
    share = fills[0].factors.get("over_provisioning_share")
    return Cost(
        method=method,
        over_provisioning_share=float(share) if share is not None else None,
        target=target.path or target.kind,
        size_bytes=target.size_bytes,
        drive_bytes=drive_bytes,
        fill_bytes=fill_bytes,
        proof_bytes_max=rounds * round_bytes,
        proof_rounds_max=rounds,
        drive_writes=fill_bytes / drive_bytes if drive_bytes else None,
        drive_writes_max=most_bytes / drive_bytes if drive_bytes else None,
        fill_s=0.0 if is_virtual else fill_bytes / ASSUMED_BYTES_PER_S,
        proof_s_min=ROUNDS_MIN * round_s,
        proof_s_max=rounds * round_s,
        used_percent=used_percent,
        life_percent_max=life_percent,
        notes=_notes(plan, health),
    )


def _life(health: Mapping[str, Health], most_bytes: int) -> tuple[float | None, float | None]:
    """Return the share of its endurance that a drive has used (%), and what more bytes will use.

    The second follows from the bytes written for the first; it is known only if SMART reports both
    for a single drive and the first is not rounded down to 0.
    """
    drives = [each.smart or {} for each in health.values()]
    if len(drives) != 1:
        return None, None
    used_percent, written_bytes = drives[0].get("used_percent"), drives[0].get("data_written_bytes")
    if used_percent is None:
        return None, None
    if not used_percent or not written_bytes:
        return float(used_percent), None
    return float(used_percent), most_bytes * used_percent / written_bytes


def _notes(plan: Plan, health: Mapping[str, Health]) -> list[str]:
    (target,) = plan.targets
    notes = list(plan.notes)
    if target.kind == "simulated":
        notes.append("Simulated device: nothing is written to storage.")
    elif target.kind != "device":
        notes.append(
            "Only the file is preconditioned. The drive's translation layer mixes it with all "
            "other data, so steady state applies to this file at the drive's present fill level."
        )
    elif target.drive_bytes and target.size_bytes < 0.95 * target.drive_bytes:
        notes.append(
            f"Only {format_share(target.size_bytes / target.drive_bytes)} of the drive is "
            "preconditioned; the rest acts as over-provisioning if it is empty."
        )
    reasons = [reason for each in health.values() for reason in each.not_readable]
    return notes + [reason for reason in reasons if reason.startswith("SMART")]


def cost_text(cost: Cost) -> str:
    """Return the cost as a few lines of text."""
    methods = {"snia": "two sequential passes (SNIA PTS)", "one-pass": "one random pass"}
    size, method = format_size(cost.size_bytes), methods[cost.method]
    lines = [f"Precondition {size} of {cost.target}: {method}"]
    if cost.over_provisioning_share is not None:
        share = format_share(cost.over_provisioning_share)
        lines.append(f"  assumed    {share} over-provisioning (--over-provisioning)")
    lines.append(f"  fills      {format_size(cost.fill_bytes)}{_drive_writes(cost.drive_writes)}")
    most = f"{format_size(cost.proof_bytes_max)} in {cost.proof_rounds_max} rounds"
    lines.append(f"  test       at most {most} (steady-state test)")
    if cost.drive_writes_max is not None:
        lines.append(f"  total      at most {cost.drive_writes_max:.3g} drive writes")
    if cost.fill_s:
        bounds_s = dict.fromkeys((cost.proof_s_min, cost.proof_s_max))
        test = " to ".join(format_seconds(bound_s) for bound_s in bounds_s)
        fills = f"about {format_seconds(cost.fill_s)} for the fills (at 250 MB/s)"
        lines.append(f"  time       {fills}; {test} for the steady-state test")
    if cost.used_percent is not None:
        lines.append(f"  endurance  {_life_text(cost)}")
    return "\n".join([*lines, *(f"  note       {note}" for note in cost.notes)])


def _drive_writes(drive_writes: float | None) -> str:
    if drive_writes is None:
        return "; drive writes unknown, since the capacity of the drive is unknown"
    return f", {drive_writes:.3g} drive writes"


def _life_text(cost: Cost) -> str:
    text = f"{cost.used_percent:g} % of the rated endurance used (SMART)"
    if cost.life_percent_max is None:
        return text
    return f"{text}; this adds at most {cost.life_percent_max:.2g} %, at the rate so far"
