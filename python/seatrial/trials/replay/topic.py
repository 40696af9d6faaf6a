"""Replays as a topic (seatrial.topic)."""

from __future__ import annotations

from seatrial.topic import Topic


class ReplayTopic(Topic):
    """Replays."""

    name = "replay"


TOPIC = ReplayTopic()
