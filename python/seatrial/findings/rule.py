"""Declaration of a rule: a decorator on the rule's function, in the rule's own file.

The name of the function is the kind of its findings. Its docstring contains the section of
docs/findings.md under ``Means:``, ``Decided:`` and ``Do:``; ``make generate`` writes the page from
it. ``seatrial.findings.registry`` discovers rules by folder; nothing else names them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from seatrial.findings.context import Context
    from seatrial.fingerprint import Fingerprint
    from seatrial.stats.compare.model import Comparison
    from seatrial.stats.model import Finding

Facts = TypeVar("Facts")


class Source(Enum):
    """The input of a rule."""

    SAMPLES = "samples"
    COMPARISON = "comparison"
    BEFORE_AFTER = "before and after"
    FINGERPRINT = "fingerprint"
    HOSTS = "hosts"


@dataclass(frozen=True, kw_only=True)
class Rule(Generic[Facts]):
    """One kind of finding and the function that finds it; called like that function.

    Attributes:
        find: Returns the findings; an empty list if there are none.
        source: Its input.
        rank: Order among all rules; of findings of equal severity the lower rank comes first.
        section: Heading of docs/findings.md under which it is documented.
        sees_faults: Whether it examines cells with injected faults, too. Any other rule would
            mistake the effects of a fault on rates, stalls and data for what it looks for.
        sees_replays: Whether it examines cells that replay a trace, too. Other rules look for a
            pattern in a rate, which is the capture's there, or attribute an error to the storage
            that the capture may contain as well.
        holds_in_simulation: Whether it applies to simulated devices, which run on virtual time
            and are not affected by the state of this machine.
        holds_in_lab: Whether it applies to a run inside the lab, where machine and drives are
            emulated and absolute speed means nothing.
        doubt: Short text with which a verdict says that a critical finding invalidates the
            figures of its cells; empty if it does not.
        doubts_all_cells: Whether it then invalidates the figures of every cell.
        follows_from: The kind that implies this doubt; the verdict then names only that kind.
        in_comparison: Finds the same in a comparison of two targets. Its findings replace all
            other findings there.
    """

    find: Callable[[Facts], list[Finding]]
    source: Source
    rank: int
    section: str
    sees_faults: bool = False
    sees_replays: bool = False
    holds_in_simulation: bool = True
    holds_in_lab: bool = True
    doubt: str = ""
    doubts_all_cells: bool = False
    follows_from: str = ""
    in_comparison: Callable[[Comparison], list[Finding]] | None = None

    @property
    def kind(self) -> str:
        """The kind of its findings; the name is stable."""
        return self.find.__name__

    def __call__(self, facts: Facts) -> list[Finding]:
        """Return the findings."""
        return self.find(facts)


def from_samples(
    *,
    rank: int,
    section: str,
    sees_faults: bool = False,
    sees_replays: bool = False,
    holds_in_simulation: bool = True,
    holds_in_lab: bool = True,
    doubt: str = "",
    doubts_all_cells: bool = False,
    follows_from: str = "",
    in_comparison: Callable[[Comparison], list[Finding]] | None = None,
) -> Callable[[Callable[[Context], list[Finding]]], Rule[Context]]:
    """Declare a rule on the samples of a run; see :class:`Rule`."""
    return lambda find: Rule(
        find=find,
        source=Source.SAMPLES,
        rank=rank,
        section=section,
        sees_faults=sees_faults,
        sees_replays=sees_replays,
        holds_in_simulation=holds_in_simulation,
        holds_in_lab=holds_in_lab,
        doubt=doubt,
        doubts_all_cells=doubts_all_cells,
        follows_from=follows_from,
        in_comparison=in_comparison,
    )


def from_fingerprint(
    *, rank: int, section: str, holds_in_lab: bool = True
) -> Callable[[Callable[[Fingerprint], list[Finding]]], Rule[Fingerprint]]:
    """Declare a preflight rule: on the fingerprint alone, before anything is measured."""
    return lambda find: Rule(
        find=find, source=Source.FINGERPRINT, rank=rank, section=section, holds_in_lab=holds_in_lab
    )


def from_comparison(
    *, rank: int, section: str
) -> Callable[[Callable[[Comparison], list[Finding]]], Rule[Comparison]]:
    """Declare a rule on a comparison of two sides."""
    return lambda find: Rule(find=find, source=Source.COMPARISON, rank=rank, section=section)


def from_before_after(
    *, rank: int, section: str
) -> Callable[[Callable[[Facts], list[Finding]]], Rule[Facts]]:
    """Declare a rule on queries, pages and batches before and after a change."""
    return lambda find: Rule(find=find, source=Source.BEFORE_AFTER, rank=rank, section=section)


def from_hosts(
    *, rank: int, section: str
) -> Callable[[Callable[[Facts], list[Finding]]], Rule[Facts]]:
    """Declare a rule on the hosts of a cluster, before anything is measured."""
    return lambda find: Rule(find=find, source=Source.HOSTS, rank=rank, section=section)
