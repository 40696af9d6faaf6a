"""Arrays as a topic (seatrial.topic)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from seatrial.topic import Topic

if TYPE_CHECKING:
    from seatrial.machine.undoer import Undoer

# ruff: noqa: PLC0415 - a topic is imported by every command, and most need nothing of it


class LayoutsTopic(Topic):
    """Arrays: built, measured, broken and taken apart."""

    name = "layouts"

    def undoers(self) -> Mapping[str, Undoer]:
        """Return how arrays are taken apart, by every backend, and the lab's machines ended."""
        from seatrial.lab.undoing import LAB_UNDOERS
        from seatrial.trials.layouts.build import registry
        from seatrial.trials.layouts.build.mapper import MAPPER_UNDOERS

        return {**LAB_UNDOERS, **MAPPER_UNDOERS, **registry.undoers()}


TOPIC = LayoutsTopic()
