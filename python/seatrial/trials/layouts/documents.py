"""The JSON documents of ``seatrial layout``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from seatrial.published import FLATTENED
from seatrial.report.json_documents import Document, as_text
from seatrial.trials.layouts.build.check import LayoutCheck
from seatrial.trials.layouts.build.standing import Standing
from seatrial.trials.layouts.build.variant import Variant


class LayoutsDocument(Document, frozen=True, kw_only=True):
    """Layouts.

    ``seatrial layout show FILE``, and ``layout build`` with ``--plan``. Nothing was touched.

    Attributes:
        variants: Those of the study's layouts, in its order.
    """

    kind: Literal["layouts"] = "layouts"
    variants: list[Variant]


class StandingNow(msgspec.Struct, frozen=True, kw_only=True):
    """A layout that was built to stand.

    Attributes:
        standing: What was built.
        is_there: Whether it still is: a restart of the machine ends it.
    """

    standing: Annotated[Standing, FLATTENED]
    is_there: bool


class StandingDocument(Document, frozen=True, kw_only=True):
    """Standing layouts.

    ``seatrial layout show``, and ``layout build``: what stands, and what could be built here.

    Attributes:
        standing: The oldest first.
        check: What could be built here.
    """

    kind: Literal["standing"] = "standing"
    standing: list[StandingNow]
    check: LayoutCheck


def variants_document(variants: Sequence[Variant]) -> str:
    """Return what the variants of a study are."""
    return as_text(LayoutsDocument(variants=list(variants)))


def standing_document(standing: Sequence[Standing], check: LayoutCheck) -> str:
    """Return what stands, and what could be built."""
    rows = [StandingNow(standing=each, is_there=each.is_there()) for each in standing]
    return as_text(StandingDocument(standing=rows, check=check))
