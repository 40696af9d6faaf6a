"""Seeds of random numbers, derived from the seed of a study."""

from __future__ import annotations

import hashlib


def seed_of(*parts: str | int) -> int:
    """Return the seed (56 bits) for these parts: the study's seed, what it is for, the round.

    It is distinct for other parts, and the same in a repeated run.
    """
    text = " ".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
