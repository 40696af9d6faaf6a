"""Rounds of the engine bench: order of programs and targets, and the cost of a request.

In each round every contender reads every target once. Targets and, within each, contenders come
in a new random order from the seed, so that drift and neighbours meet all alike. What a command
takes to start and end is measured in the same round by the same command with almost no time to
read, and subtracted: the median of all rounds, because it is a constant of the command.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from contenders import BenchTarget, CommandError, Contender, Reading, contenders_at
from targets import warm

from seatrial.units import NS_PER_S

ALMOST_NOTHING_S: Final = 0.001


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One contender at one target in one round.

    Attributes:
        target: The target's name.
        contender: The contender's name.
        idle: The command with almost no time to read.
        busy: The command with the sample's time.
        duration_s: The sample's time.
    """

    target: str
    contender: str
    idle: Reading
    busy: Reading
    duration_s: float


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one request cost, one value per round.

    Attributes:
        user_ns: Processor time in user space.
        system_ns: Processor time in the kernel.
        per_s: Requests per second, which depends on the machine's other work.
    """

    user_ns: list[float]
    system_ns: list[float]
    per_s: list[float]

    @property
    def total_ns(self) -> list[float]:
        """Total processor time."""
        return [user + system for user, system in zip(self.user_ns, self.system_ns, strict=True)]


def measure_round(
    targets: Sequence[BenchTarget], duration_s: float, rng: random.Random
) -> list[Sample]:
    """Let every program read every target once, in an order drawn from ``rng``.

    Raises:
        CommandError: When a command fails.
    """
    samples = []
    for target in rng.sample(list(targets), len(targets)):
        if target.path is not None and not target.direct:
            warm(target.path)
        contenders = contenders_at(target)
        for contender in rng.sample(contenders, len(contenders)):
            samples.append(_sample(target, contender, duration_s))
    return samples


def _sample(target: BenchTarget, contender: Contender, duration_s: float) -> Sample:
    idle = contender.run(target, ALMOST_NOTHING_S)
    busy = contender.run(target, duration_s)
    if busy.completed <= idle.completed:
        raise CommandError(f"{contender.name} read no more in {duration_s} s than at its start")
    return Sample(
        target=target.name,
        contender=contender.name,
        idle=idle,
        busy=busy,
        duration_s=duration_s,
    )


def cost_of(samples: Sequence[Sample]) -> Cost:
    """Return what a request cost from the samples of one contender at one target."""
    completed_idle = _median(samples, lambda idle: idle.completed)
    user_idle_s = _median(samples, lambda idle: idle.user_s)
    system_idle_s = _median(samples, lambda idle: idle.system_s)
    requests = [sample.busy.completed - completed_idle for sample in samples]
    return Cost(
        user_ns=[
            (sample.busy.user_s - user_idle_s) / count * NS_PER_S
            for sample, count in zip(samples, requests, strict=True)
        ],
        system_ns=[
            (sample.busy.system_s - system_idle_s) / count * NS_PER_S
            for sample, count in zip(samples, requests, strict=True)
        ],
        per_s=[sample.busy.completed / sample.duration_s for sample in samples],
    )


def _median(samples: Sequence[Sample], figure: Callable[[Reading], float]) -> float:
    return statistics.median(figure(sample.idle) for sample in samples)


def costs_by_target(
    targets: Sequence[BenchTarget], samples: Sequence[Sample]
) -> dict[str, dict[str, Cost]]:
    """Return what a request cost by target and contender, one value per round in their order."""
    return {
        target.name: {
            contender.name: cost_of(
                [
                    sample
                    for sample in samples
                    if (sample.target, sample.contender) == (target.name, contender.name)
                ]
            )
            for contender in contenders_at(target)
        }
        for target in targets
    }
