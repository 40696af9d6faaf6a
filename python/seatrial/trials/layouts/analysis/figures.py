"""The figures of the article "One DVD per second" (2009): what each of them shows, as data.

The article measured RAID0 of 1 to 12 drives and RAID5 of 3 to 12 on one controller, and RAID0 and
RAID5 of 2 x 4 to 2 x 8 drives striped over two controllers by lvm2 (RAID00, RAID05 there).
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

BLOCK_BYTES: Final = 8192
"""Of the article's database."""

Quantity = Literal["bandwidth", "iops", "copy_time"]
Against = Literal["drives", "block_size_bytes"]


class ArticleFigure(msgspec.Struct, frozen=True, kw_only=True):
    """What one figure shows, and which cells belong into it.

    Attributes:
        number: In the article.
        title: What it shows.
        against: The horizontal axis; one line for each operation, and for each number of threads
            or each layout, whichever is not fixed.
        quantity: The vertical axis.
        pattern: ``random`` or ``sequential``; of a copy ``copy``.
        operations: Whose lines it has.
        block_size_bytes: The only one; None where it is the axis, or of a copy no matter.
        threads: Those that it has; empty where all.
        level: The only one; empty for all.
        legs: How many legs; 0 for any.
        drives: Drives of all legs; 0 where it is the axis, or for any.
    """

    number: int
    title: str
    against: Against
    quantity: Quantity
    pattern: Literal["random", "sequential", "copy"]
    operations: tuple[str, ...] = ("read", "write")
    block_size_bytes: int | None = None
    threads: tuple[int, ...] = ()
    level: str = ""
    legs: int = 0
    drives: int = 0


def _random_against_drives(number: int, threads: int) -> ArticleFigure:
    noun = "thread" if threads == 1 else "threads"
    return ArticleFigure(
        number=number,
        title=f"Random 8 KiB, {threads} {noun}, against number of drives",
        against="drives",
        quantity="bandwidth",
        pattern="random",
        block_size_bytes=BLOCK_BYTES,
        threads=(threads,),
    )


def _against_block_size(number: int, level: str, legs: int, drives: int) -> list[ArticleFigure]:
    """Return the pair of figures that the article has of one layout: bandwidth, then IOPS."""
    name = level.upper() if legs == 1 else f"RAID0{level.removeprefix('raid')}"
    of_legs = f"{legs} x {drives // legs}, " if legs > 1 else ""
    layout = f"{name}, {of_legs}{drives} drives"
    common = {
        "against": "block_size_bytes",
        "pattern": "random",
        "threads": (1, 10),
        "level": level,
        "legs": legs,
        "drives": drives,
    }
    titles = {
        "bandwidth": f"Random bandwidth against block size and threads: {layout}",
        "iops": f"Random requests per second against block size and threads: {layout}",
    }
    return [
        msgspec.convert(
            {"number": number + place, "title": title, "quantity": quantity, **common},
            ArticleFigure,
        )
        for place, (quantity, title) in enumerate(titles.items())
    ]


FIGURES: Final[tuple[ArticleFigure, ...]] = (
    ArticleFigure(
        number=1,
        title="Sequential 8 KiB, 1 thread, against number of drives",
        against="drives",
        quantity="bandwidth",
        pattern="sequential",
        block_size_bytes=BLOCK_BYTES,
        threads=(1,),
    ),
    ArticleFigure(
        number=2,
        title="Time to copy 1 GiB against number of drives (less is better)",
        against="drives",
        quantity="copy_time",
        pattern="copy",
        operations=("copy",),
    ),
    _random_against_drives(3, 1),
    _random_against_drives(4, 10),
    _random_against_drives(5, 40),
    *_against_block_size(6, "raid0", 1, 4),
    *_against_block_size(8, "raid0", 1, 8),
    *_against_block_size(10, "raid0", 1, 12),
    *_against_block_size(12, "raid5", 1, 4),
    *_against_block_size(14, "raid5", 1, 8),
    *_against_block_size(16, "raid5", 1, 12),
    *_against_block_size(18, "raid0", 2, 8),
    *_against_block_size(20, "raid0", 2, 12),
    *_against_block_size(22, "raid0", 2, 16),
    *_against_block_size(24, "raid5", 2, 8),
    *_against_block_size(26, "raid5", 2, 12),
    *_against_block_size(28, "raid5", 2, 16),
    ArticleFigure(
        number=30,
        title="RAID5, random writes of 10 threads against block size and number of drives",
        against="block_size_bytes",
        quantity="bandwidth",
        pattern="random",
        operations=("write",),
        threads=(10,),
        level="raid5",
    ),
    ArticleFigure(
        number=31,
        title="Sequential bandwidth against block size, big file and small file: RAID05, 2 x 5",
        against="block_size_bytes",
        quantity="bandwidth",
        pattern="sequential",
        level="raid5",
        legs=2,
        drives=10,
    ),
)
"""In the article's order. Of layouts that are not the article's the same is drawn as in figures 6
to 29, without a number (drawn.py)."""
