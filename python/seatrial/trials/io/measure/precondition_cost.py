"""What conditioning will cost a drive: bytes, drive-writes, time, and a share of its life."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from seatrial.published import FLATTENED, Amount, Count, one_of
from seatrial.report.json_documents import Document, as_text
from seatrial.stats.wording import format_share
from seatrial.study.estimate import OVERHEAD_S
from seatrial.study.layouts.cost import ASSUMED_BYTES_PER_S
from seatrial.study.model import Plan
from seatrial.study.units import format_seconds, format_size
from seatrial.trials.io.measure.precondition import ROUNDS_MIN


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan of fills and proofs will cost.

    Attributes:
        method: ``snia`` or ``one-pass``.
        over_provisioning_share: What the one pass takes to be there; None for other methods.
        target: Path of the target, or its kind.
        size_bytes: How much of it is conditioned.
        drive_bytes: Capacity of the drives behind it; None if unknown.
        fill_bytes: What the fills write.
        proof_bytes_max: The most that the proof writes, in all of its rounds.
        proof_rounds_max: The most rounds of the proof.
        drive_writes: What the fills write over the drives' capacity; None if that is unknown.
        drive_writes_max: The same with the longest proof.
        fill_s: How long the fills take at an assumed 250 MB/s; 0 on a virtual clock.
        proof_s_min: How long the shortest proof takes, five rounds.
        proof_s_max: How long the longest one takes.
        used_percent: Share of the rated life that SMART says is used; None if unknown.
        life_percent_max: How much of it fills and longest proof will use, at the pace at which the
            drive used it so far; None if that cannot be told.
        notes: What else a reader should know.
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
    """The cost of conditioning.

    ``seatrial precondition`` with ``--plan``: what it would cost. Nothing was touched.

    Attributes:
        cost: What it would cost.
    """

    kind: Literal["precondition"] = "precondition"
    cost: Annotated[Cost, FLATTENED]


def precondition_document(cost: Cost) -> str:
    """Return what conditioning would cost."""
    return as_text(PreconditionDocument(cost=cost))


def cost_of(plan: Plan, method: str, health: Mapping[str, Any]) -> Cost:
    """Return what a plan of fills and proofs will cost.

    Args:
        plan: The plan, of one target.
        method: ``snia`` or ``one-pass``.
        health: SMART figures by device, as the fingerprint has them.
    """
    (target,) = plan.targets
    fills = [cell for cell in plan.cells if cell.kind == "fill"]
    proofs = [cell for cell in plan.cells if cell.kind != "fill"]
    rounds = plan.study.rounds.max
    fill_bytes = sum(int(cell.spec["limit"]["bytes"]) for cell in fills)
    round_bytes = sum(int(cell.spec["limit"]["bytes"] or 0) for cell in proofs)
    is_virtual = target.kind == "simulated"
    round_s = sum(
        OVERHEAD_S if is_virtual else float(cell.spec["limit"]["duration_s"]) for cell in proofs
    )
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


def _life(health: Mapping[str, Any], most_bytes: int) -> tuple[float | None, float | None]:
    """Return the share of its life that a drive has used (%), and what so many bytes will use.

    The second follows from what it wrote for the first; it is known only where SMART tells both of
    a single drive, and the first is not rounded down to 0.
    """
    drives = [each.get("smart") or {} for each in health.values()]
    if len(drives) != 1:
        return None, None
    used_percent, written_bytes = drives[0].get("used_percent"), drives[0].get("data_written_bytes")
    if used_percent is None:
        return None, None
    if not used_percent or not written_bytes:
        return float(used_percent), None
    return float(used_percent), most_bytes * used_percent / written_bytes


def _notes(plan: Plan, health: Mapping[str, Any]) -> list[str]:
    (target,) = plan.targets
    notes = list(plan.notes)
    if target.kind == "simulated":
        notes.append("A simulated device: nothing is written to storage.")
    elif target.kind != "device":
        notes.append(
            "Only the file is conditioned: the drive's translation layer mixes it with all else "
            "that the drive holds, so its steady state is that of this file at this fill."
        )
    elif target.drive_bytes and target.size_bytes < 0.95 * target.drive_bytes:
        notes.append(
            f"Only {format_share(target.size_bytes / target.drive_bytes)} of the drive is "
            "conditioned: the rest serves it as over-provisioning if it is empty."
        )
    reasons = [reason for each in health.values() for reason in each.get("not_readable") or []]
    return notes + [reason for reason in reasons if reason.startswith("SMART")]


def cost_text(cost: Cost) -> str:
    """Return the cost as a few lines for a person."""
    ways = {"snia": "two sequential passes (SNIA PTS)", "one-pass": "one random pass"}
    lines = [f"Conditioning {format_size(cost.size_bytes)} of {cost.target}: {ways[cost.method]}"]
    if cost.over_provisioning_share is not None:
        share = format_share(cost.over_provisioning_share)
        lines.append(f"  assumed    {share} of flash beyond the capacity (--over-provisioning)")
    lines.append(f"  fills      {format_size(cost.fill_bytes)}{_drive_writes(cost.drive_writes)}")
    most = f"{format_size(cost.proof_bytes_max)} in {cost.proof_rounds_max} rounds"
    lines.append(f"  proof      at most {most}")
    if cost.drive_writes_max is not None:
        lines.append(f"  together   at most {cost.drive_writes_max:.3g} drive-writes")
    if cost.fill_s:
        bounds_s = dict.fromkeys((cost.proof_s_min, cost.proof_s_max))
        proof = " to ".join(format_seconds(bound_s) for bound_s in bounds_s)
        fills = f"about {format_seconds(cost.fill_s)} for the fills, were they to go at 250 MB/s"
        lines.append(f"  time       {fills}; {proof} for the proof")
    if cost.used_percent is not None:
        lines.append(f"  life       {_life_text(cost)}")
    return "\n".join([*lines, *(f"  note       {note}" for note in cost.notes)])


def _drive_writes(drive_writes: float | None) -> str:
    if drive_writes is None:
        return "; the drive's capacity is not known, so neither are the drive-writes"
    return f", {drive_writes:.3g} drive-writes"


def _life_text(cost: Cost) -> str:
    reported = f"{cost.used_percent:g} % of the rated life is used (SMART)"
    if cost.life_percent_max is None:
        return reported
    return (
        f"{reported}; this will use at most {cost.life_percent_max:.2g} % more, at the pace so far"
    )
