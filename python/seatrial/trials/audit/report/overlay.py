"""The overlay of an audit on a chart of rates: model lines, absent cells, circled gaps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from seatrial.grouping import grouped
from seatrial.report.figures.model import BottomMark, Line, Point, Ring
from seatrial.report.figures.naming import Identity, requests_word
from seatrial.stats.model import Estimate
from seatrial.stats.wording import format_share
from seatrial.study.cell import FactorValue
from seatrial.trials.audit.analysis.model import Gap, Prediction, TableAudit, TablePoint
from seatrial.trials.audit.analysis.tables import identity_of

MODEL: Final = "model"
PREDICTED: Final = "predicted, not measured"

STATUS_WORDS: Final = {
    "seen_once": "seen once",
    "persistent": "in every round",
    "transient": "in some rounds only",
}
KIND_WORDS: Final = {
    "bound_broken": "bound broken",
    "start_transient": "start transient",
    "collapse": "collapse",
    "too_fast": "too fast",
    "absent": "absent",
    "noise": "noise",
}


def is_absent(point: TablePoint) -> bool:
    """Return whether a cell was measured but has no figure."""
    return point.iops is None and point.measured


@dataclass
class PanelOverlay:
    """The overlay of one panel."""

    lines: list[Line] = field(default_factory=list)
    feet: list[BottomMark] = field(default_factory=list)
    rings: list[Ring] = field(default_factory=list)


class Overlay:
    """The audits of one view of a chart of rates.

    Args:
        audits: Audits of the tables in the view.
        unit: ``IOPS`` or ``B/s``.
    """

    def __init__(self, audits: Sequence[TableAudit], unit: str) -> None:
        self.audits = audits
        self._unit = unit

    @property
    def identities(self) -> list[dict[str, FactorValue]]:
        """The factors of every cell of the tables."""
        return [
            identity_of(audit.table, point) for audit in self.audits for point in audit.table.points
        ]

    @property
    def predicted(self) -> list[Estimate]:
        """The predictions of the models, in the view's unit."""
        return [
            self._scaled(point, audit.predictions[point.key])
            for audit in self.audits
            for point in audit.table.points
            if point.key in audit.predictions
        ]

    @property
    def absent_max(self) -> int:
        """The largest number of absent cells at the same block size."""
        absent_cells = Counter(
            (audit.table.operation, point.block_size_bytes)
            for audit in self.audits
            for point in audit.table.points
            if is_absent(point)
        )
        return max(absent_cells.values(), default=0)

    @property
    def gaps(self) -> list[str]:
        """A sentence for each gap, in the order of the numbers at the rings."""
        return [gap_text(gap) for _, _, gap in self._numbered()]

    @property
    def notes(self) -> list[str]:
        """The accuracy of the models."""
        texts = [text for audit in self.audits if (text := error_text(audit))]
        return [f"Thin lines show the model: {'; '.join(texts)}."] if texts else []

    def panel(
        self, operation: str, name_of: Callable[[Identity], str], styles: Mapping[str, int]
    ) -> PanelOverlay:
        """Return the overlay of one operation's panel.

        Args:
            operation: The operation.
            name_of: From a cell's factors to the name of its line.
            styles: Styles of the lines, by name.
        """
        overlay = PanelOverlay()
        for audit in self.audits:
            if audit.table.operation != operation:
                continue
            named = [
                (name_of(identity_of(audit.table, point)), point) for point in audit.table.points
            ]
            for name, pairs in grouped(named, lambda pair: pair[0]).items():
                self._add_line(overlay, audit, [point for _, point in pairs], (name, styles[name]))
        overlay.rings += self._rings(operation, name_of)
        return overlay

    def _add_line(
        self,
        overlay: PanelOverlay,
        audit: TableAudit,
        points: Sequence[TablePoint],
        named: tuple[str, int],
    ) -> None:
        """Add the model's line for one measured line, and its cells without a figure."""
        name, style = named
        known = [point for point in points if point.key in audit.predictions]
        points_by_key = {
            point.key: Point.of(
                point.block_size_bytes, self._scaled(point, audit.predictions[point.key])
            )
            for point in sorted(known, key=lambda point: point.block_size_bytes)
        }
        if points_by_key:
            model = Line(
                name=MODEL, style=style, points=[*points_by_key.values()], look="model", of=name
            )
            overlay.lines.append(model)
        unmeasured = {point.key for point in points if not point.measured}
        predicted = [point for key, point in points_by_key.items() if key in unmeasured]
        if predicted:
            overlay.lines.append(
                Line(name=PREDICTED, style=style, points=predicted, look="predicted", of=name)
            )
        overlay.feet += [
            BottomMark(point.block_size_bytes, name, style, "absent")
            for point in points
            if is_absent(point)
        ]

    def _rings(self, operation: str, name_of: Callable[[Identity], str]) -> Iterator[Ring]:
        for number, audit, gap in self._numbered():
            if audit.table.operation != operation:
                continue
            keys = set(gap.keys)
            for point in audit.table.points:
                if point.key in keys:
                    name = name_of(identity_of(audit.table, point))
                    yield Ring(
                        point.block_size_bytes,
                        self._height(point),
                        str(number),
                        seen_text(gap),
                        name,
                    )

    def _numbered(self) -> Iterator[tuple[int, TableAudit, Gap]]:
        pairs = ((audit, gap) for audit in self.audits for gap in audit.gaps)
        for number, (audit, gap) in enumerate(pairs, start=1):
            yield number, audit, gap

    def _height(self, point: TablePoint) -> float | None:
        """Return the height of a point's figure; None if it has none above 0."""
        if point.iops is None or point.iops.value <= 0:
            return None
        return point.iops.value * self._factor(point)

    def _factor(self, point: TablePoint) -> float:
        return 1.0 if self._unit == "IOPS" else float(point.block_size_bytes)

    def _scaled(self, point: TablePoint, prediction: Prediction) -> Estimate:
        factor = self._factor(point)
        return Estimate(
            value=prediction.iops * factor,
            low=prediction.low * factor,
            high=prediction.high * factor,
            rounds=0,
            unit=self._unit,
        )


def gap_text(gap: Gap) -> str:
    """Return a gap as one text: sentence, status and likely cause."""
    return " ".join(filter(None, [seen_text(gap), gap.cause]))


def seen_text(gap: Gap) -> str:
    """Return the sentence of a gap with its status."""
    return f"{gap.sentence.removesuffix('.')} ({STATUS_WORDS[gap.status]})."


def error_text(audit: TableAudit) -> str:
    """Return the errors of a model; empty if none fits."""
    if not audit.holds or audit.error_share_median is None:
        return ""
    text = f"{requests_word(audit.table.operation)} (median error "
    text += format_share(audit.error_share_median)
    if audit.held_out_share_median is not None:
        text += f", {format_share(audit.held_out_share_median)} in cross-validation"
    return f"{text})"
