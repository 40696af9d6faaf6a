"""What served the blocks that queries read: shared buffers, page cache, or the device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from seatrial.results.model import Sample
from seatrial.trials.database.analysis.model import ReadShares
from seatrial.trials.database.analysis.readings import mean_of_rounds

PLACES: Final = ("shared_buffers", "page_cache", "device")
BLOCKS_MIN: Final = 1000
"""Of a round; fewer are those of the catalog, and say nothing of the data."""


def read_shares(samples: Sequence[Sample]) -> ReadShares | None:
    """Return the shares over the rounds, of whole samples; None where any round lacks them.

    The blocks are counted over whole samples, so a start-up phase that the rate leaves out is in.
    """
    rounds = [_blocks(sample) for sample in samples]
    known = [blocks for blocks in rounds if blocks is not None]
    if not known or len(known) < len(rounds):
        return None
    shares = {
        place: mean_of_rounds(
            [blocks[place] / math.fsum(blocks.values()) for blocks in known], "share", high_max=1.0
        )
        for place in PLACES
    }
    return ReadShares(
        blocks=round(math.fsum(math.fsum(blocks.values()) for blocks in known)), **shares
    )


def _blocks(sample: Sample) -> dict[str, float] | None:
    """Return the blocks (8 KiB) of a sample by place; None where too few or not all are known."""
    names = {place: f"reads_{place}" for place in PLACES}
    if not all(name in sample.counters for name in names.values()):
        return None
    blocks = {place: max(0.0, sample.counters[name]) for place, name in names.items()}
    return blocks if math.fsum(blocks.values()) >= BLOCKS_MIN else None
