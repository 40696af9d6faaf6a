"""Finding ``lab``: it was measured inside a user-mode Linux kernel, on virtual disks."""

from __future__ import annotations

from seatrial.findings.context import Context, lookup
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Finding


@from_samples(rank=680, section="Of layouts", sees_replays=True)
def lab(context: Context) -> list[Finding]:
    """Say of a run of the lab what of its figures holds.

    Means:
        It was measured in a user-mode Linux kernel, on virtual disks: ratios and counts hold,
        absolute speed does not.

    Decided:
        The fingerprint says so. Note. Findings on absolute speed, or on a machine and drives that
        the lab only plays, are left out; the evidence lists their kinds.

    Do:
        Run the same study on the drives that will serve.
    """
    from seatrial.findings.registry import kinds_not_of_lab  # noqa: PLC0415 - it imports this

    kernel = lookup(context.run.fingerprint_before, "machine", "lab")
    if not kernel:
        return []
    clock = " It has one processor, and its clock ticks 100 times a second." * _is_uml(kernel)
    return [
        Finding(
            kind="lab",
            severity="note",
            cells=[],
            sentence=(
                f"Measured in the lab ({kernel}) on virtual disks: ratios and counts hold, "
                "absolute speed does not."
            ),
            cause=(
                "The code of md, LVM and the file systems is the kernel's own, and so is what it "
                "asks of the drives; the drives, the processor and the clock's tick are not "
                f"those of a machine.{clock}"
            ),
            evidence={"kinds_left_out": sorted(kinds_not_of_lab())},
            next="Run the same study on the drives that will serve: seatrial study STUDY --devices",
        )
    ]


def _is_uml(kernel: object) -> bool:
    return str(kernel).startswith("user-mode Linux")
