"""Keys that all kinds of workloads have."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Self

import msgspec
from msgspec import Meta, field

from seatrial.study.layouts.layout import Failure, Failures, as_stored
from seatrial.study.values import ONE, Seconds, SliceMs, StallThresholdMs

REBUILD_LIMIT: Final = "rebuild_limit_kib_per_s"
"""Key of a workload, factor of its cells, and key of their specification."""
DATABASE_STALL_THRESHOLD_MS: Final = 500
"""With transactions that never end: the usual latency of a disk is not a stall."""

RebuildLimit = Annotated[int, Meta(ge=0, le=100_000_000)]


class SampledWorkload(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"
):
    """Keys that every workload has.

    Attributes:
        name: Name in cells, findings and thresholds; by default the kind.
        targets: Labels of its targets; by default all that support it.
        duration_s: Duration of each sample (``seconds``).
        slice_ms: Length of the timeline's slices.
        stall_threshold_ms: Shortest time without completions that counts as a stall.
        fail: Injected faults; then it runs on layouts only.
        rebuild_limit_kib_per_s: Rebuild rate limit of an array, a factor; 0 for the kernel's
            default.
    """

    ENDS_BY_ITSELF: ClassVar[bool] = False
    """Whether a sample ends when its work is done, regardless of its duration."""
    SEEKS_RATE: ClassVar[bool] = False
    """Whether it searches for a rate, so that none can be given."""

    name: str = ""
    targets: list[str] = []
    duration_s: Seconds = field(default=1.0, name="seconds")
    slice_ms: SliceMs = 100
    stall_threshold_ms: StallThresholdMs = 50
    fail: Failures = []
    rebuild_limit_kib_per_s: RebuildLimit | Annotated[list[RebuildLimit], ONE] = 0

    @property
    def kind(self) -> str:
        """The kind, such as ``matrix``."""
        return str(self.__struct_config__.tag)

    @property
    def failures(self) -> list[Failure]:
        """The injected faults, in order of time."""
        given = self.fail if isinstance(self.fail, list) else [self.fail]
        return sorted(given, key=lambda failure: failure.after_s)

    @property
    def label(self) -> str:
        """The name, or by default the kind."""
        return self.name or self.kind

    @property
    def allows_faults(self) -> bool:
        """Whether faults can be injected during a sample."""
        return True

    @property
    def is_once(self) -> bool:
        """Whether only the first round measures it."""
        return False

    @property
    def copied_share(self) -> float:
        """The share of the trial file that is copied to a second file."""
        return 0.0

    def with_options(self, seconds: float | None, *, buffered: bool, full: bool) -> Self:
        """Return the workload with changes from the command line.

        Args:
            seconds: Duration of a sample; None for no change.
            buffered: Use the page cache, for workloads of the I/O engine.
            full: Measure all block sizes and threads of the article, in a matrix.
        """
        del buffered, full
        if seconds is None or self.ENDS_BY_ITSELF:
            return self
        return msgspec.structs.replace(self, duration_s=seconds)


def breaking(workload: SampledWorkload, rebuild_limit_kib_per_s: int) -> dict[str, object]:
    """Return the faults for a cell's specification; empty for none.

    ``fail`` holds the faults in order of time, each a ``Failure`` as it is stored.
    """
    if not workload.failures:
        return {}
    faults = [as_stored(failure) for failure in workload.failures]
    return {"fail": faults, REBUILD_LIMIT: rebuild_limit_kib_per_s}
