"""JSON documents of ``seatrial layout``: docs/schema/layouts.schema.json, standing.schema.json."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from seatrial.report.exports.json_document import as_text, document

if TYPE_CHECKING:
    from seatrial.cli.check.backend import LayoutCheck
    from seatrial.cli.layouts.text import Variant
    from seatrial.trials.layouts.build.standing import Standing


def variants_document(variants: Sequence[Variant]) -> str:
    """Return what the variants of a study are: docs/schema/layouts.schema.json."""
    return as_text(document("layouts", variants=list(variants)))


def standing_document(standing: Sequence[Standing], check: LayoutCheck) -> str:
    """Return what stands, and what could be built: docs/schema/standing.schema.json."""
    rows: list[dict[str, Any]] = [
        msgspec.to_builtins(each) | {"is_there": each.is_there()} for each in standing
    ]
    return as_text(document("standing", standing=rows, check=check))
