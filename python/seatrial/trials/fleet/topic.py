"""Many hosts as a topic (seatrial.topic)."""

from __future__ import annotations

from types import MappingProxyType

from seatrial.topic import Command, Topic


class FleetTopic(Topic):
    """Hosts of a Ray cluster: whether they are fit to measure, and studies that they share."""

    name = "fleet"
    commands = MappingProxyType(
        {
            "fleet": Command(
                "Many hosts: what would spoil a measurement on a Ray cluster.",
                "seatrial.trials.fleet.commands.fleet:command",
                after="check",
            )
        }
    )


TOPIC = FleetTopic()
