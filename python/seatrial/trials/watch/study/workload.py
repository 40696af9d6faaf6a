"""The workload ``recording``: the requests of a recording, sent to another target."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from msgspec import Meta, field

from seatrial import _core
from seatrial.study.values import ONE, Depth, Seconds
from seatrial.trials.io.study.workloads import WorkloadBase

RECORDING: Final = "recording"
"""The kind of the workload, and its key in a cell's specification."""
SPEED_MAX: Final = 1_000.0
DEPTH: Final = 256
"""Requests in flight at most, unless given."""

Speed = Annotated[float, Meta(gt=0, le=SPEED_MAX)] | Literal["max"]


class RecordingWorkload(WorkloadBase, frozen=True, kw_only=True, tag="recording"):
    """The requests of a recording, in their order, on another target.

    Attributes:
        file: The recording (docs/recording.md).
        speed: Recorded time over time of the replay, a factor; ``max`` for as fast as possible.
        device: The only recorded device whose requests are sent; empty for all.
        depth: Requests in flight at most.
        duration_s: A sample ends after this time (``seconds``), even if requests are left.
    """

    ENDS_BY_ITSELF: ClassVar[bool] = True

    file: Annotated[str, Meta(min_length=1)]
    speed: Speed | Annotated[list[Speed], ONE] = 1.0
    device: str = ""
    depth: Depth = DEPTH
    duration_s: Seconds = field(default=_core.DURATION_S_MAX, name="seconds")

    @property
    def allows_faults(self) -> bool:
        """Always False: its samples end with the recording."""
        return False
