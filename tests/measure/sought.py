"""A load line sought in this process, through the real engine, on a device that is a model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from seatrial.measure.progress import SilentWatcher
from seatrial.measure.recorder import RoundsResult
from seatrial.measure.run import RunRequest, execute
from seatrial.results.model import Run, Sample
from seatrial.results.store import ResultsFile
from seatrial.study.load import study_from_mapping
from seatrial.study.plan import make_plan
from seatrial.trials.loadline.analysis.decider import decider
from seatrial.trials.loadline.analysis.lines import load_lines
from seatrial.trials.loadline.analysis.model import LoadLine
from seatrial.trials.loadline.measure import load_lines as seek

US = 1e-6


@dataclass(frozen=True)
class Sought:
    """What was measured, and its report."""

    run: Run
    end: RoundsResult
    samples: list[Sample]
    line: LoadLine


def sought(
    folder: Path, model: dict, *, seed: int = 1, study: dict | None = None, **workload
) -> Sought:
    """Seek the load line of a simulated device; ``folder`` keeps results and journal."""
    checked = study_from_mapping(
        {
            "name": "sought",
            "seed": seed,
            "target": [{"kind": "simulated", "size": "1GiB", "model": model}],
            "workload": [{"kind": "loadline", "limit": "5ms", **workload}],
            **(study or {}),
        },
        "sought",
    )
    with ResultsFile.open(folder / "results.seatrial", create=True) as store:
        request = RunRequest(plan=make_plan(checked), command="test")
        run, end = execute(request, store, watcher=SilentWatcher(), strategy=seek(decider))
        samples = store.samples(run.id)
    (line,) = load_lines(checked, samples)
    return Sought(run, end, samples, line)


def exponential(channels: int, mean_us: float = 100.0) -> dict:
    """A device whose service times are exponential to a thousandth."""
    base_us = mean_us / 1000
    return {
        "channels": channels,
        "read": {"base_us": base_us, "per_kib_us": 0},
        "noise_share": 999.0,
    }


def sustained_in_theory(channels: int, mean_s: float, limit_s: float, share: float) -> float:
    """The rate at which an M/M/c queue is slower than the limit for the share of its requests."""
    low, high = 0.0, channels / mean_s
    for _ in range(60):
        middle = (low + high) / 2
        if slower_share(middle, channels, 1 / mean_s, limit_s) <= share:
            low = middle
        else:
            high = middle
    return low


def slower_share(rate_per_s: float, channels: int, mu: float, limit_s: float) -> float:
    """The share of the requests of an M/M/c queue that take longer than a limit.

    Erlang's C, and the sum of an exponential service and, with probability C, an exponential wait.
    """
    blocked = 1.0
    for servers in range(1, channels + 1):
        blocked = rate_per_s / mu * blocked / (servers + rate_per_s / mu * blocked)
    waits = blocked / (1 - rate_per_s / mu / channels * (1 - blocked))
    drain = channels * mu - rate_per_s
    alone = math.exp(-mu * limit_s)
    if abs(drain - mu) < 1e-9 * mu:
        return alone * (1 + waits * mu * limit_s)
    return alone * (1 + waits * mu * (1 - math.exp(-(drain - mu) * limit_s)) / (drain - mu))
