"""What a rule declares of itself: it stands above the function that finds, in the rule's own file.

The function's name is the kind of its findings. Its docstring holds, below ``Means:``,
``Decided:`` and ``Do:``, the section of docs/findings.md, from which ``make generate`` writes the
page. ``seatrial.findings.registry`` finds rules by their folder: nothing else names them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from seatrial.findings.context import Context
    from seatrial.stats.compare.model import Comparison
    from seatrial.stats.model import Finding

Facts = TypeVar("Facts")


class Source(Enum):
    """What a rule draws its findings from."""

    SAMPLES = "samples"
    COMPARISON = "comparison"
    BEFORE_AFTER = "before and after"
    FINGERPRINT = "fingerprint"


@dataclass(frozen=True, kw_only=True)
class Rule(Generic[Facts]):
    """One kind of finding, and the function that finds it; called like that function.

    Attributes:
        find: Yields the findings; none where nothing is to be said.
        source: What it draws them from.
        rank: Its place among all rules; of findings of equal severity the lower one comes first.
        section: Heading of docs/findings.md below which it is explained.
        sees_faults: Whether it looks at cells in which something was broken on purpose, too. To
            all others what a failure does to rates, stalls and data would look like what they seek.
        sees_replays: Whether it looks at cells that play a trace, too. All others seek a law in a
            rate, which is the capture's there, or take an error for one of the storage, which the
            capture may have as well.
        holds_in_simulation: Whether it says anything of simulated devices, whose time is virtual:
            what this machine is like does not touch them.
        holds_in_lab: Whether it says anything of a run inside the lab, which only plays a machine
            and its drives, so that absolute speed means nothing.
        in_comparison: What finds the same in a comparison of two targets. What it finds there
            takes the place of all other findings.
    """

    find: Callable[[Facts], list[Finding]]
    source: Source
    rank: int
    section: str
    sees_faults: bool = False
    sees_replays: bool = False
    holds_in_simulation: bool = True
    holds_in_lab: bool = True
    in_comparison: Callable[[Comparison], list[Finding]] | None = None

    @property
    def kind(self) -> str:
        """The kind of its findings, a stable name."""
        return self.find.__name__

    def __call__(self, facts: Facts) -> list[Finding]:
        """Return what it finds."""
        return self.find(facts)


def from_samples(
    *,
    rank: int,
    section: str,
    sees_faults: bool = False,
    sees_replays: bool = False,
    holds_in_simulation: bool = True,
    holds_in_lab: bool = True,
    in_comparison: Callable[[Comparison], list[Finding]] | None = None,
) -> Callable[[Callable[[Context], list[Finding]]], Rule[Context]]:
    """Declare a rule that draws on the samples of a run; see :class:`Rule`."""
    return lambda find: Rule(
        find=find,
        source=Source.SAMPLES,
        rank=rank,
        section=section,
        sees_faults=sees_faults,
        sees_replays=sees_replays,
        holds_in_simulation=holds_in_simulation,
        holds_in_lab=holds_in_lab,
        in_comparison=in_comparison,
    )


def from_fingerprint(
    *, rank: int, section: str, holds_in_lab: bool = True
) -> Callable[[Callable[[dict[str, Any]], list[Finding]]], Rule[dict[str, Any]]]:
    """Declare a rule that draws on the fingerprint alone, before anything is measured."""
    return lambda find: Rule(
        find=find, source=Source.FINGERPRINT, rank=rank, section=section, holds_in_lab=holds_in_lab
    )


def from_comparison(
    *, rank: int, section: str
) -> Callable[[Callable[[Comparison], list[Finding]]], Rule[Comparison]]:
    """Declare a rule that draws on a comparison of two sides."""
    return lambda find: Rule(find=find, source=Source.COMPARISON, rank=rank, section=section)


def from_before_after(
    *, rank: int, section: str
) -> Callable[[Callable[[Facts], list[Finding]]], Rule[Facts]]:
    """Declare a rule that draws on queries, pages and batches before and after a change."""
    return lambda find: Rule(find=find, source=Source.BEFORE_AFTER, rank=rank, section=section)
