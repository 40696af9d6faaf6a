"""What every kind of workload has, whatever serves it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Self

import msgspec
from msgspec import Meta, field

from seatrial.study.layouts.failure import Failure, Failures, as_stored
from seatrial.study.values import ONE, Seconds

REBUILD_LIMIT: Final = "rebuild_limit_kib_per_s"
"""Key of a workload, factor of its cells, and key of their specification."""
DATABASE_STALL_THRESHOLD_MS: Final = 500
"""Without a transaction that ends: a disk's usual pace is no stall."""

RebuildLimit = Annotated[int, Meta(ge=0, le=100_000_000)]


class Sampled(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"
):
    """What every kind of workload has.

    Attributes:
        name: What cells, findings and thresholds call it; the kind unless given.
        targets: Labels of the targets that it runs on; all that can unless given.
        duration_s: How long one sample of one cell lasts (``seconds``).
        slice_ms: Length of the timeline's slices.
        stall_threshold_ms: Shortest time without a completion that is a stall.
        fail: What is broken meanwhile; then it runs on layouts only.
        rebuild_limit_kib_per_s: How fast an array may rebuild, a factor; 0 is the kernel's own.
    """

    ENDS_BY_ITSELF: ClassVar[bool] = False
    """Whether a sample ends when its work is done, however long that takes."""
    SEEKS_RATE: ClassVar[bool] = False
    """Whether its rate is found while it runs, so that none can be given."""

    name: str = ""
    targets: list[str] = []
    duration_s: Seconds = field(default=1.0, name="seconds")
    slice_ms: Annotated[int, Meta(ge=1, le=60_000)] = 100
    stall_threshold_ms: Annotated[int, Meta(ge=1, le=60_000)] = 50
    fail: Failures = []
    rebuild_limit_kib_per_s: RebuildLimit | Annotated[list[RebuildLimit], ONE] = 0

    @property
    def kind(self) -> str:
        """The kind, such as ``matrix``."""
        return str(self.__struct_config__.tag)

    @property
    def failures(self) -> list[Failure]:
        """What is broken meanwhile, in order of time."""
        given = self.fail if isinstance(self.fail, list) else [self.fail]
        return sorted(given, key=lambda failure: failure.after_s)

    @property
    def label(self) -> str:
        """The name, or the kind where none is given."""
        return self.name or self.kind

    @property
    def can_break_meanwhile(self) -> bool:
        """Whether something may be broken while a sample lasts."""
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
        """Return the workload with what the command line changes of it.

        Args:
            seconds: Length of a sample; None leaves it.
            buffered: Go through the page cache, where requests are the engine's.
            full: Measure all of the article's block sizes and threads, in a matrix.
        """
        del buffered, full
        if seconds is None or self.ENDS_BY_ITSELF:
            return self
        return msgspec.structs.replace(self, duration_s=seconds)


def breaking(workload: Sampled, rebuild_limit_kib_per_s: int) -> dict[str, Any]:
    """Return what a cell's specification says of what is broken meanwhile; empty for nothing.

    ``fail`` holds the faults in order of time, each a ``Failure`` as it is stored.
    """
    if not workload.failures:
        return {}
    faults = [as_stored(failure) for failure in workload.failures]
    return {"fail": faults, REBUILD_LIMIT: rebuild_limit_kib_per_s}
