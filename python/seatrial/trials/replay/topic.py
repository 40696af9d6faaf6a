"""Replays as a topic (seatrial.topic).

Their part of a study and the way they are measured are the database topic's: a trace is one more
load of its servers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from seatrial.topic import Topic

if TYPE_CHECKING:
    from seatrial.errors import UsageError
    from seatrial.stats.compare.model import Entrant
    from seatrial.stats.compare.pairing import Matched

# ruff: noqa: PLC0415 - a topic is imported by every command, and most need nothing of it


class ReplayTopic(Topic):
    """Replays: what was captured of a server's work, played to another one."""

    name = "replay"

    def unlike(self, a: Entrant, b: Entrant, matched: Matched) -> Iterator[UsageError]:
        """Yield why replays are not one load: trace, how it was played, the data."""
        from seatrial.trials.replay.analysis.comparison import unlike_replays

        return unlike_replays(a, b, matched)

    def weakened(self, a: Entrant, b: Entrant, matched: Matched) -> Iterator[str]:
        """Yield a sentence for each side that did not play what was captured."""
        from seatrial.trials.replay.analysis.comparison import unwell_replays

        return unwell_replays(a, b, matched)


TOPIC = ReplayTopic()
