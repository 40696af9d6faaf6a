"""Access specifications: mixes of sizes, reads and randomness, as IOMeter writes them."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from seatrial.study.values import Share, Size

Weight = Annotated[float, Meta(gt=0, le=1e6)]


class SizeShare(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One size of a distribution.

    Attributes:
        size_bytes: The size (``size``).
        share: How often, relative to the other sizes.
    """

    size_bytes: Size = msgspec.field(name="size")
    share: Weight = 1.0


class AccessLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of an access specification.

    Attributes:
        share: How often, relative to the other lines.
        size_bytes: The only size (``size``); None where ``sizes`` is given.
        sizes: A distribution of sizes.
        read: Share of reads, 0 to 1; the others write.
        random: Share of requests at random places, 0 to 1; the others follow each other.
        align_bytes: Random requests begin at multiples of this (``align``); by default of their
            own size.
    """

    share: Weight = 1.0
    size_bytes: Size | None = msgspec.field(default=None, name="size")
    sizes: Annotated[list[SizeShare], Meta(min_length=1)] | None = None
    read: Share = 1.0
    random: Share = 1.0
    align_bytes: Size | None = msgspec.field(default=None, name="align")

    def distribution(self) -> list[SizeShare]:
        """Return the sizes with their shares, also where there is only one."""
        if self.sizes is not None:
            return self.sizes
        return [SizeShare(size_bytes=self.size_bytes)] if self.size_bytes is not None else []

    def alignment_bytes(self, size_bytes: int) -> int:
        """Return what random requests of one of the sizes are aligned to."""
        return self.align_bytes or size_bytes


class AccessSpecification(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named mix.

    Attributes:
        name: What a ``mix`` workload calls it by.
        lines: Its parts.
    """

    name: str
    lines: Annotated[list[AccessLine], Meta(min_length=1)]

    def read_share(self) -> float:
        """Return the share of reads over all lines, 0 to 1."""
        return sum(line.share * line.read for line in self.lines) / sum(
            line.share for line in self.lines
        )


def _line(percent_by_size: dict[str, float], *, read: float, random: float) -> AccessLine:
    """Return a line of sizes and their percentages."""
    shares = [
        SizeShare(size_bytes=Size.read(size), share=percent)
        for size, percent in percent_by_size.items()
    ]
    if len(shares) == 1:
        return AccessLine(size_bytes=shares[0].size_bytes, read=read, random=random)
    return AccessLine(sizes=shares, read=read, random=random)


_FILE_SERVER_PERCENT: Final = {
    "512": 10.0,
    "1KiB": 5.0,
    "2KiB": 5.0,
    "4KiB": 60.0,
    "8KiB": 2.0,
    "16KiB": 4.0,
    "32KiB": 4.0,
    "64KiB": 10.0,
}
_WEB_SERVER_PERCENT: Final = {
    "512": 22.0,
    "1KiB": 15.0,
    "2KiB": 8.0,
    "4KiB": 23.0,
    "8KiB": 15.0,
    "16KiB": 2.0,
    "32KiB": 6.0,
    "64KiB": 7.0,
    "128KiB": 1.0,
    "512KiB": 1.0,
}

CLASSIC: Final[dict[str, AccessSpecification]] = {
    name: AccessSpecification(name=name, lines=[line])
    for name, line in {
        "database": _line({"8KiB": 100.0}, read=0.67, random=1.0),
        "file-server": _line(_FILE_SERVER_PERCENT, read=0.8, random=1.0),
        "web-server": _line(_WEB_SERVER_PERCENT, read=1.0, random=1.0),
        "workstation": _line({"8KiB": 100.0}, read=0.8, random=0.8),
    }.items()
}
"""The four specifications of Intel's IOMeter that reviews have used since 1999.

The sizes and shares are those that Tom's Hardware printed ("Storage Charts 2009",
IOMeter 2006.07.27). IOMeter aligns requests to the sector of 512 bytes, which was the drives'
own block then; here a request is aligned to its size, as databases and file systems do it.
"""
