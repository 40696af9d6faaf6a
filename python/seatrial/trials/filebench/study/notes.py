"""What a user should know about a plan of workloads of files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from seatrial.study.cell import Cell
from seatrial.study.units import format_size
from seatrial.trials.filebench.study.cells import cost_of, engine_of
from seatrial.trials.filebench.study.workloads import FILEBENCH

_MEMORY: Final = Path("/proc/meminfo")


def notes_of(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield what is done otherwise than by Filebench, and what the page cache holds."""
    own = [cell for cell in cells if cell.kind == FILEBENCH]
    yield from dict.fromkeys(note for cell in own for note in cost_of(cell).notes)
    memory_bytes = _memory_bytes()
    for cell in own:
        made_bytes = cost_of(cell).made_bytes
        is_cached = 0 < made_bytes < memory_bytes / 2 and not engine_of(cell)["cold"]
        if is_cached and not cell.parsed.target.direct:
            yield (
                f"{cell.key}: its files ({format_size(made_bytes)}) fit into the page cache, from "
                "which reads are answered, as with Filebench; --cold drops them from it before "
                "each sample"
            )


def _memory_bytes() -> int:
    """Return the memory of this machine in bytes; 0 if unknown."""
    try:
        lines = _MEMORY.read_text(encoding="utf-8").splitlines()
        kib = next(line.split()[1] for line in lines if line.startswith("MemTotal:"))
        return int(kib) * 1024
    except (OSError, StopIteration, ValueError, IndexError):
        return 0
