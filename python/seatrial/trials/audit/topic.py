"""Audits as a topic (seatrial.topic)."""

from __future__ import annotations

from seatrial.topic import Topic


class AuditTopic(Topic):
    """Audits."""

    name = "audit"


TOPIC = AuditTopic()
