"""What the figures of a comparison are called."""

from __future__ import annotations

from seatrial.stats.compare.figures import RATE


def figure_words(figure: str) -> str:
    """Return a figure as a heading says it: ``IOPS``, of databases ``tps``, ``read p99``.

    Args:
        figure: Its name, as in a Comparand.
    """
    return "IOPS" if figure == RATE else figure
