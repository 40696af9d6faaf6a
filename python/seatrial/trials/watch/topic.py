"""Watching as a topic (seatrial.topic)."""

from __future__ import annotations

from types import MappingProxyType

from seatrial.topic import Command, Topic


class WatchTopic(Topic):
    """Block requests of a machine while others use it; no load of ours."""

    name = "watch"
    commands = MappingProxyType(
        {
            "watch": Command(
                "Watch block requests live: latency by device, process, table and index.",
                "seatrial.trials.watch.commands.watch:command",
                after="check",
            ),
            "mark": Command(
                "Set a marker in every watch that is running.",
                "seatrial.trials.watch.commands.mark:command",
                after="watch",
            ),
            "trace": Command(
                "Recorded block requests: what kind of load it is, other programs' traces.",
                "seatrial.trials.watch.commands.trace:command",
                after="watch",
            ),
        }
    )


TOPIC = WatchTopic()
