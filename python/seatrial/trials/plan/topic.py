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
                "What to buy or rent for a load: price, response time, risk, and the proof.",
                "seatrial.trials.plan.commands.plan:command",
                after="cache",
                section="Plan",
            ),
            "caps": Command(
                "What limits this storage: volume, instance, credits, RAID, knee; money wasted.",
                "seatrial.trials.plan.commands.caps:command",
                after="plan",
            ),
            "risk": Command(
                "What an array loses in its years, by which cause, and how long its drives last.",
                "seatrial.trials.plan.commands.risk:command",
                after="plan",
            ),
            "certify": Command(
                "One page about a run: promised, delivered, price of what was sustained.",
                "seatrial.trials.plan.commands.certify:command",
                after="report",
            ),
        }
    )


TOPIC = PlanTopic()
