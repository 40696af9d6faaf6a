"""Before a replay writes: do the target's sequences stand where the log begins?

Where they do not, the target is not what the captured database was then: what the replay inserts
gets other ids, and what the log names by id are other rows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from seatrial import _core
from seatrial.errors import RefusedError
from seatrial.postgres.catalogue import Catalogue
from seatrial.trials.database.measure.driver_result import Endpoints
from seatrial.trials.database.study.workloads import ReplaySpec

INFER: Final = "infer"
OFF: Final = "off"
BY_CATALOGUE: Final = frozenset({"object", "key", "strict"})
"""Orders that ask what a statement touches."""
MISMATCH: Final = "sequence_mismatch"
_NAMED_MAX: Final = 3


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A sequence whose ids a trace uses.

    Attributes:
        sequence: Its place in the catalogue.
        next_value_target: What the target would give next; None where that may not be read.
        next_value_log: What the log's first draw gave; None where the log does not show it.
    """

    sequence: int
    next_value_target: int | None
    next_value_log: int | None

    @property
    def differs(self) -> bool:
        """Whether the target surely stands elsewhere."""
        known = self.next_value_target is not None and self.next_value_log is not None
        return known and self.next_value_target != self.next_value_log


def needs_catalogue(replay: ReplaySpec) -> bool:
    """Tell whether the engine has to know what the target's catalogue says."""
    return replay.ids == INFER or replay.order in BY_CATALOGUE


def require_sequences(replay: ReplaySpec, catalogue: Catalogue, endpoints: Endpoints) -> list[str]:
    """Check, before anything is sent, that sequences stand where the log begins.

    Args:
        replay: What is to be played; its ids are inferred.
        catalogue: The target's, as it is now.
        endpoints: To the target.

    Returns:
        What is worth knowing of it, as sentences: mismatches that were allowed, and sequences of
        which nothing is known.

    Raises:
        RefusedError: when one stands elsewhere and that was not allowed.
    """
    shown = _shown(
        replay.trace, replay.identity, catalogue.as_json(), tuple(sorted(replay.databases))
    )
    differing = [
        f"{_name(catalogue, each)} would give {each.next_value_target:,} next, and the log's first "
        f"draw gave {each.next_value_log:,}"
        for each in shown
        if each.differs
    ]
    unread = [_name(catalogue, each) for each in shown if each.next_value_target is None]
    if differing and MISMATCH not in replay.allow:
        raise _elsewhere(differing, endpoints)
    notes = [f"Sequences do not stand where the log begins: {_some(differing)}."] * bool(differing)
    if unread:
        notes.append(
            f"Where {_some(unread)} stood could not be read: whether the target is what the "
            "captured database was is not known."
        )
    return notes


@lru_cache(maxsize=16)
def _shown(
    trace: str, _identity: str, catalogue: str, databases: tuple[str, ...]
) -> tuple[Shown, ...]:
    """Return what a trace shows; every sample that begins alike gets the same answer."""
    reported = _core.trace_sequences(trace, catalogue, list(databases))
    return msgspec.json.decode(reported, type=tuple[Shown, ...])


def _name(catalogue: Catalogue, shown: Shown) -> str:
    sequence = catalogue.sequences[shown.sequence]
    return f"{sequence.schema}.{sequence.name}"


def _some(reported: list[str]) -> str:
    more = f" and {len(reported) - _NAMED_MAX} more" if len(reported) > _NAMED_MAX else ""
    return "; ".join(reported[:_NAMED_MAX]) + more


def _elsewhere(differing: list[str], endpoints: Endpoints) -> RefusedError:
    address = endpoints.addresses[0]
    return RefusedError(
        seen=f"In the database {address.dbname} at {address.place} sequences do not stand where "
        f"the log begins: {_some(differing)}",
        cause="The database is not the captured one at the moment at which the log begins: rows "
        "that the log names by id are other rows here, or none",
        next_step="Replay on a restore of that moment; to replay all the same, with ids that "
        "cannot be mapped left alone, add --allow sequence_mismatch",
    )
