"""Arrays as a topic (seatrial.topic)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from seatrial.topic import Topic

if TYPE_CHECKING:
    from seatrial.machine.undoer import Undoer


class LayoutsTopic(Topic):
    """Arrays."""

    name = "layouts"

    def undoers(self) -> Mapping[str, Undoer]:
        """Return how arrays are taken apart, by every backend, and the lab's machines ended."""
        from seatrial.lab.undoing import LAB_UNDOERS  # noqa: PLC0415
        from seatrial.trials.layouts.build import registry  # noqa: PLC0415 - loads every backend
        from seatrial.trials.layouts.build.mapper import MAPPER_UNDOERS  # noqa: PLC0415

        return {**LAB_UNDOERS, **MAPPER_UNDOERS, **registry.undoers()}


TOPIC = LayoutsTopic()
