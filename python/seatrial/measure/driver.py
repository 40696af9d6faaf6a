"""What measures cells: the occasion of one sample, and what is made ready for all of a topic's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, Self

from seatrial.errors import SeatrialError
from seatrial.machine.file import TrialFolder
from seatrial.measure.background import Background
from seatrial.measure.progress import Watcher
from seatrial.results.model import Sample
from seatrial.study.cell import Cell


@dataclass(frozen=True)
class Occasion:
    """When and under whose eyes a sample is taken.

    Attributes:
        round_number: The round, from 0.
        position: The cell's place in the round's order, from 0.
        watcher: Told of the progress.
        background: What goes on meanwhile; None for nothing.
        opened: Safe paths of files that the run may write, by their paths.
    """

    round_number: int
    position: int
    watcher: Watcher
    background: Background | None = None
    opened: Mapping[str, str] = field(default_factory=dict)


class Driver(Protocol):
    """Makes ready what the cells of a topic need, such as servers, and measures them there."""

    shrink_option: str
    """The option of the command line that makes what it keeps smaller."""

    def open(self) -> Self:
        """Check everything that can be checked before a run is stored, and have what it needs."""

    def check(self) -> None:
        """Check everything that can be checked, and have nothing."""

    def close(self) -> None:
        """Put everything away."""

    def needed_bytes(self, label: str) -> int:
        """Return what the directory of a target must have room for."""

    def use(self, label: str, folder: TrialFolder) -> None:
        """Work in the trial folder of a target, which is open."""

    def prepare(self, watcher: Watcher) -> dict[str, SeatrialError]:
        """Load what the samples begin with; return what went wrong and may, by target."""

    def measure(self, cell: Cell, occasion: Occasion) -> Sample:
        """Measure one cell once."""
