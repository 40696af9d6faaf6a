"""What the figures of a comparison are called."""

from __future__ import annotations

from collections.abc import Iterable

from seatrial.analysis.compare.figures import RATE
from seatrial.analysis.compare.model import Comparand

TPS = "tps"


def figure_words(figure: str, comparands: Iterable[Comparand]) -> str:
    """Return a figure as a heading says it: ``IOPS``, of databases ``tps``, ``read p99``.

    Rates of databases and others together are a ``rate``.

    Args:
        figure: Its name, as in a Comparand.
        comparands: What it is the figure of, and others.
    """
    if figure != RATE:
        return figure
    units = {each.a.unit for each in comparands if each.figure == figure}
    if TPS in units:
        return TPS if units == {TPS} else "rate"
    return "IOPS"
