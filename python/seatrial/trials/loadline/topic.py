"""Load lines as a topic (seatrial.topic)."""

from __future__ import annotations

from seatrial.topic import Topic


class LoadlineTopic(Topic):
    """Load lines."""

    name = "loadline"


TOPIC = LoadlineTopic()
