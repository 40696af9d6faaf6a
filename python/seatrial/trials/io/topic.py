"""Block I/O as a topic (seatrial.topic)."""

from __future__ import annotations

from seatrial.topic import Topic


class IoTopic(Topic):
    """Block I/O."""

    name = "io"


TOPIC = IoTopic()
