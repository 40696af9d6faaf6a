"""What every kind of workload has, whatever serves it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, field

from seatrial.study.values import Seconds


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
    """

    name: str = ""
    targets: list[str] = []
    duration_s: Seconds = field(default=1.0, name="seconds")
    slice_ms: Annotated[int, Meta(ge=1, le=60_000)] = 100
    stall_threshold_ms: Annotated[int, Meta(ge=1, le=60_000)] = 50

    @property
    def kind(self) -> str:
        """The kind, such as ``matrix``."""
        return str(self.__struct_config__.tag)

    @property
    def label(self) -> str:
        """The name, or the kind where none is given."""
        return self.name or self.kind
