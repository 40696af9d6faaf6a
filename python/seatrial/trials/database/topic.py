"""Databases as a topic (seatrial.topic)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from seatrial.topic import Topic

if TYPE_CHECKING:
    from seatrial.machine.undoer import Undoer


class DatabaseTopic(Topic):
    """Databases."""

    name = "database"

    def undoers(self) -> Mapping[str, Undoer]:
        """Return how servers are ended and their accounts and folders removed."""
        from seatrial.postgres.undoing import POSTGRES_UNDOERS  # noqa: PLC0415

        return POSTGRES_UNDOERS


TOPIC = DatabaseTopic()
