"""The JSON documents of ``seatrial layout``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from seatrial.published import FLATTENED
from seatrial.report.exports.json_document import Document
from seatrial.trials.layouts.build.build import VariantPlan
from seatrial.trials.layouts.build.check import LayoutCheck
from seatrial.trials.layouts.build.standing import StandingLayout


class LayoutsDocument(Document, frozen=True, kw_only=True):
    """The layouts of a study.

    ``seatrial layout show FILE``, and ``layout build`` with ``--plan``. Nothing was changed.

    Attributes:
        variants: The variants of the study's layouts, in its order.
    """

    kind: Literal["layouts"] = "layouts"
    variants: list[VariantPlan]


class StandingLayoutState(msgspec.Struct, frozen=True, kw_only=True):
    """A standing layout.

    Attributes:
        standing: The layout as built.
        is_there: Whether it still exists; a restart of the machine removes it.
    """

    standing: Annotated[StandingLayout, FLATTENED]
    is_there: bool


class StandingDocument(Document, frozen=True, kw_only=True):
    """Standing layouts.

    ``seatrial layout show``, and ``layout build``: standing layouts and available backends.

    Attributes:
        standing: Oldest first.
        check: What can be built on this machine.
    """

    kind: Literal["standing"] = "standing"
    standing: list[StandingLayoutState]
    check: LayoutCheck


def standing_document(standing: Sequence[StandingLayout], check: LayoutCheck) -> str:
    """Return the document of the standing layouts and of what can be built."""
    rows = [StandingLayoutState(standing=each, is_there=each.is_there()) for each in standing]
    return StandingDocument(standing=rows, check=check).as_text()
