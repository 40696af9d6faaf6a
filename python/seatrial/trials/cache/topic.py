"""Caches as a topic (seatrial.topic)."""

from __future__ import annotations

from types import MappingProxyType

from seatrial.topic import Command, Topic


class CacheTopic(Topic):
    """Caches in front of storage: what they would serve of a recorded load."""

    name = "cache"
    commands = MappingProxyType(
        {
            "cache": Command(
                "What more memory or an SSD in front would do, from a recording.",
                "seatrial.trials.cache.commands.cache:command",
                after="trace",
            ),
        }
    )


TOPIC = CacheTopic()
