"""What a topic of trials implements, and the one list that all of them are entered in.

Read this file first to add a topic. A topic is a folder below ``trials/`` whose module ``topic``
holds a :class:`Topic` called ``TOPIC``; nothing outside of that folder names it. A distribution of
somebody else's brings one along as an entry point of the group ``seatrial.topics``.

Every method has a default that does nothing, and imports what it needs when it is called, so that
no command loads a topic that it has no use for.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from seatrial.machine.undoer import Undoer

TOPICS: Final = ("io", "loadline", "database", "replay", "layouts", "audit")
"""Folders below ``trials/``, in the order in which a page shows them."""

ENTRY_POINTS: Final = "seatrial.topics"


class Topic:
    """A topic of trials: how its part of a study is read, measured, analysed and shown.

    Attributes:
        name: That of its folder.
    """

    name: str = ""

    def undoers(self) -> Mapping[str, Undoer]:
        """Return how each kind of change that its trials make to the system is undone."""
        return {}


@functools.cache
def topics() -> tuple[Topic, ...]:
    """Return every topic: those of this product, then those of other distributions."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - takes a while

    own = [importlib.import_module(f"seatrial.trials.{name}.topic").TOPIC for name in TOPICS]
    return (*own, *(each.load() for each in entry_points(group=ENTRY_POINTS)))
