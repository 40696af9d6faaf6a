"""Finding ``lab``: measured inside the lab's kernel, on virtual disks."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText


class LabFigures(Figures, frozen=True, kw_only=True, tag="lab"):
    kinds_left_out: list[str]
    kernel: Annotated[str, HIDDEN]

    def text(self) -> FindingText:
        clock = " It has one CPU and a 100 Hz timer tick." * _is_uml(self.kernel)
        return FindingText(
            sentence=(
                f"Measured in the lab ({self.kernel}) on virtual disks: ratios and counts are "
                "valid, absolute speed is not."
            ),
            cause=(
                "md, LVM and the file systems are the real kernel code and send real requests to "
                f"the drives; the drives, CPUs and timers are emulated.{clock}"
            ),
            next=("Run the same study on the production drives: seatrial study STUDY --devices"),
        )


@from_samples(rank=680, section="Layouts", sees_replays=True)
def lab(context: Context) -> list[Finding]:
    """Report which figures of a lab run are valid.

    Means:
        The run was measured in the lab's kernel (user-mode Linux or QEMU), on virtual disks: ratios
        and counts are valid, absolute speed is not.

    Decided:
        From the fingerprint. Note. Findings on absolute speed, or on the emulated machine and
        drives, are left out; the evidence lists their kinds.

    Do:
        Run the same study on the production drives.
    """
    from seatrial.findings.registry import kinds_not_of_lab  # noqa: PLC0415 - it imports this

    kernel = context.run.fingerprint_before.machine.lab
    if not kernel:
        return []
    figures = LabFigures(kinds_left_out=sorted(kinds_not_of_lab()), kernel=kernel)
    return [Finding(severity="note", cells=[], figures=figures)]


def _is_uml(kernel: str) -> bool:
    return str(kernel).startswith("user-mode Linux")
