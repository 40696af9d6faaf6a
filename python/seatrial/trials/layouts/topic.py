"""Arrays as a topic (seatrial.topic)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from seatrial.topic import Topic

if TYPE_CHECKING:
    from seatrial.machine.undoer import Undoer
    from seatrial.measure.stage import AnyStage, StageRequest

# ruff: noqa: PLC0415 - a topic is imported by every command, and most need nothing of it


class LayoutsTopic(Topic):
    """Arrays: built, measured, broken and taken apart."""

    name = "layouts"

    def stage(self, request: StageRequest) -> AnyStage | None:
        """Return a stage that builds the layouts of a plan; None where it has none."""
        from seatrial.trials.layouts.measure.stage import LayoutStage

        if not request.plan.study.layouts:
            return None
        return LayoutStage(
            request.plan,
            request.run_id,
            request.journal,
            destroy=request.destroy,
            found=request.found,
            tell_target=request.tell_target,
        )

    def undoers(self) -> Mapping[str, Undoer]:
        """Return how arrays are taken apart, by every backend, and the lab's machines ended."""
        from seatrial.lab.undoing import LAB_UNDOERS
        from seatrial.trials.layouts.build import registry
        from seatrial.trials.layouts.build.mapper import MAPPER_UNDOERS

        return {**LAB_UNDOERS, **MAPPER_UNDOERS, **registry.undoers()}


TOPIC = LayoutsTopic()
