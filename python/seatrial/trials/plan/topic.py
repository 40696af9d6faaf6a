"""What to buy or rent, as a topic (seatrial.topic)."""

from __future__ import annotations

from types import MappingProxyType

from seatrial.topic import Command, Topic


class PlanTopic(Topic):
    """Limits, risk and price of storage: what there is, and what could be had instead."""

    name = "plan"
    commands = MappingProxyType(
        {
            "plan": Command(
                "What to buy or rent for a load: price, response time, risk, and a test of it.",
                "seatrial.trials.plan.commands.plan:command",
                after="cache",
                section="Plan",
            ),
            "caps": Command(
                "What limits this storage: volume, instance, credits, RAID; money wasted.",
                "seatrial.trials.plan.commands.caps:command",
                after="plan",
            ),
            "risk": Command(
                "The risk of data loss of an array, by cause, and the lifetime of its drives.",
                "seatrial.trials.plan.commands.risk:command",
                after="plan",
            ),
            "certify": Command(
                "One page about a run: rates promised and delivered, and their price.",
                "seatrial.trials.plan.commands.certify:command",
                after="report",
            ),
        }
    )


TOPIC = PlanTopic()
