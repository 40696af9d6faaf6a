"""Checks before a replay writes: are the target's sequences at the start of the log?

If not, the target differs from the captured database at that time: inserts of the replay get other
ids, and ids in the log refer to other rows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from seatrial import _core
from seatrial.errors import RefusedError, native_errors
from seatrial.postgres.catalogue import Catalogue
from seatrial.stats.wording import format_first
from seatrial.trials.database.measure.driver_result import Endpoints
from seatrial.trials.database.study.workloads import ReplaySpec

INFER: Final = "infer"
OFF: Final = "off"
BY_CATALOGUE: Final = frozenset({"object", "key", "strict"})
"""Orders that need to know what a statement accesses."""
MISMATCH: Final = "sequence_mismatch"
_NAMED_MAX: Final = 3


class TraceSequence(msgspec.Struct, frozen=True, kw_only=True):
    """A sequence whose ids a trace uses.

    Attributes:
        sequence: Its index in the catalogue.
        next_value_target: The target's next value; None if it may not be read.
        next_value_log: The first value drawn in the log; None if the log does not show it.
    """

    sequence: int
    next_value_target: int | None
    next_value_log: int | None

    @property
    def differs(self) -> bool:
        """Whether the target certainly differs."""
        known = self.next_value_target is not None and self.next_value_log is not None
        return known and self.next_value_target != self.next_value_log


def needs_catalogue(replay: ReplaySpec) -> bool:
    """Return whether the engine needs the target's catalogue."""
    return replay.ids == INFER or replay.order in BY_CATALOGUE


def require_sequences(replay: ReplaySpec, catalogue: Catalogue, endpoints: Endpoints) -> list[str]:
    """Check, before anything is sent, that sequences are at the start of the log.

    Args:
        replay: The replay, with inferred ids.
        catalogue: The target's current catalogue.
        endpoints: The target.

    Returns:
        Notes, as sentences: allowed mismatches, and sequences in unknown state.

    Raises:
        RefusedError: when one differs and that is not allowed.
    """
    sequences = _trace_sequences(
        replay.trace, replay.identity, catalogue.as_json(), tuple(sorted(replay.databases))
    )
    differing = [
        f"the next value of {catalogue.sequences[use.sequence].label} is "
        f"{use.next_value_target:,}, but the "
        f"log's first value is {use.next_value_log:,}"
        for use in sequences
        if use.differs
    ]
    unread = [
        catalogue.sequences[use.sequence].label
        for use in sequences
        if use.next_value_target is None
    ]
    if differing and MISMATCH not in replay.allow:
        raise _sequences_differ(differing, endpoints)
    notes = [f"Sequences do not match the start of the log: {_first_texts(differing)}."] * bool(
        differing
    )
    if unread:
        notes.append(
            f"The values of {_first_texts(unread)} could not be read, so it is unknown "
            "whether the target matches the captured database."
        )
    return notes


@lru_cache(maxsize=16)
def _trace_sequences(
    trace: str, _identity: str, catalogue: str, databases: tuple[str, ...]
) -> tuple[TraceSequence, ...]:
    """Return the sequences of a trace; cached for the samples of a run."""
    with native_errors():
        encoded = _core.trace_sequences(trace, catalogue, list(databases))
    return msgspec.json.decode(encoded, type=tuple[TraceSequence, ...])


def _first_texts(texts: list[str]) -> str:
    return format_first(texts, _NAMED_MAX, between="; ")


def _sequences_differ(differing: list[str], endpoints: Endpoints) -> RefusedError:
    address = endpoints.addresses[0]
    return RefusedError(
        seen=f"Sequences of the database {address.dbname} at {address.endpoint} do not match the "
        f"start of the log: {_first_texts(differing)}",
        cause="The database is not the captured one at the time at which the log begins: IDs in "
        "the log refer to other rows here, or to none",
        next_step="Replay on a restore to that time; to replay nevertheless, without mapping "
        "these IDs, add --allow sequence_mismatch",
    )
