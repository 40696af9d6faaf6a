"""Runs grouped by a fact of their machine: host, kernel, drive or firmware.

The unit is the run: a run's figure is the geometric mean of its rounds, and intervals are over the
runs of a group. Groups of at least two runs are compared with the first one by Welch's t on
logarithms, all of them with Holm's adjustment together. Runs of different machines cannot be
interleaved, so whatever else differs between the groups may be the cause.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from seatrial.stats.cell_estimates import estimate_of_rounds
from seatrial.stats.compare.figures import Rounds, figures_of
from seatrial.stats.compare.fingerprints import value_phrase
from seatrial.stats.compare.model import Difference, SideSamples
from seatrial.stats.compare.pairing import identity_without_target
from seatrial.stats.compare.ratio import ALPHA, contrast, holm, p_value
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import is_broken
from seatrial.stats.set_up import FACTS, UNKNOWN
from seatrial.study.cell import FactorValue

OWN_PATHS: Final = {
    "host": ("machine.product", "machine.cpu_model", "machine.cpus_online", "machine.cpus_usable"),
    "kernel": ("machine.kernel",),
    "drive": (".model", ".serial_hash"),
    "firmware": (".firmware",),
}
"""Ends of the key paths that a fact itself is made of."""


class FactGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The runs with one value of the fact.

    Attributes:
        value: The value; ``unknown`` where the fingerprint does not have it.
        run_ids: The runs.
    """

    value: str
    run_ids: list[str]


class FactRow(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of one test in every group.

    Attributes:
        test: The factors of the test; with the target only where a run has it on several.
        figure: Such as ``iops`` or ``read p99``.
        values: For each group the mean over its runs, with an interval if there are at least
            two; None if no run has the test.
        differs: Whether each group differs significantly from the first one; None where that
            cannot be judged, as one of the two has fewer than two runs, or a run measured 0.
    """

    test: dict[str, FactorValue]
    figure: str
    values: list[Estimate | None]
    differs: list[bool | None]


class OtherFact(msgspec.Struct, frozen=True, kw_only=True):
    """Another fact that differs between the groups, and may be the cause of a difference.

    Attributes:
        words: Description, such as ``kernel``.
        values: For each group, its values separated by commas.
    """

    words: str
    values: list[str]


class ByFact(msgspec.Struct, frozen=True, kw_only=True):
    """Runs by a fact.

    Attributes:
        fact: The fact.
        groups: In the order of their first run.
        rows: In the order of the tests.
        others: What else differs between the groups, the likeliest causes first.
    """

    fact: str
    groups: list[FactGroup]
    rows: list[FactRow]
    others: list[OtherFact]


_RowKey = tuple[str, str, str, bool]


class Grouping:
    """Collects the figures of runs, one at a time, so that their samples need not be kept.

    Args:
        fact: One of :data:`~seatrial.stats.set_up.FACTS`.
        figures: Names of figures; by default all.
    """

    def __init__(self, fact: str, figures: Collection[str] | None = None) -> None:
        self._fact = fact
        self._figures = figures
        self._run_ids: dict[str, dict[str, None]] = {}
        self._tests: dict[_RowKey, dict[str, FactorValue]] = {}
        self._logs: dict[_RowKey, dict[str, dict[str, dict[str, float]]]] = {}
        self._resolution_share: dict[_RowKey, float] = defaultdict(float)
        self._differences: list[tuple[str, dict[str, Difference]]] = []

    def add(self, one_side: SideSamples, differences: Sequence[Difference]) -> None:
        """Add one target of a run.

        Args:
            one_side: The target, with its samples.
            differences: Differences between its fingerprint and that of the first target.
        """
        run = one_side.side.run
        group = FACTS[self._fact](run, one_side.side.target) or UNKNOWN
        self._run_ids.setdefault(group, {})[run.id] = None
        likely = {each.path: each for each in differences if each.weight == "likely"}
        self._differences.append((group, likely))
        cells: dict[str, list[Any]] = defaultdict(list)
        for sample in one_side.samples:
            if not is_broken(sample):
                cells[sample.cell.key_without_target].append(sample)
        for key, samples in cells.items():
            for figure, rounds in figures_of(samples, self._figures).items():
                row = (key, figure, rounds.unit, rounds.is_reported)
                self._tests.setdefault(row, identity_without_target(samples[0].cell))
                of_run = self._logs.setdefault(row, {}).setdefault(group, {})
                of_run.setdefault(run.id, {})[one_side.side.target] = _mean_log(rounds)
                share = max(self._resolution_share[row], rounds.resolution_share)
                self._resolution_share[row] = share

    def result(self) -> ByFact:
        """Return the groups side by side."""
        groups = list(self._run_ids)
        rows: list[FactRow] = []
        p_values: list[float] = []
        tested: list[tuple[int, int]] = []
        wanted = [(row, target) for row in self._tests for target in self._targets(row)]
        for row, target in wanted:
            of_groups = [self._rounds(row, group, target) for group in groups]
            for group, rounds in enumerate(of_groups[1:], start=1):
                p = _p_value(of_groups[0], rounds)
                if p is not None:
                    p_values.append(p)
                    tested.append((len(rows), group))
            rows.append(
                FactRow(
                    test={"target": target, **self._tests[row]} if target else self._tests[row],
                    figure=row[1],
                    values=[_estimate(rounds) for rounds in of_groups],
                    differs=[None] * len(groups),
                )
            )
        for (index, group), p in zip(tested, holm(p_values), strict=True):
            rows[index].differs[group] = p <= ALPHA
        found = [FactGroup(value=each, run_ids=list(self._run_ids[each])) for each in groups]
        return ByFact(fact=self._fact, groups=found, rows=rows, others=self._others(groups))

    def _targets(self, row: _RowKey) -> list[str]:
        """Return the targets to keep apart; one empty name unless a run has several in a group."""
        runs = [of_run for of_runs in self._logs[row].values() for of_run in of_runs.values()]
        return list(dict.fromkeys(chain(*runs))) if max(map(len, runs)) > 1 else [""]

    def _rounds(self, row: _RowKey, group: str, target: str) -> Rounds | None:
        """Return the runs of a group as rounds of a figure; None if none has it.

        Args:
            row: The figure of a test.
            group: The group.
            target: Only on this target; on any if empty.
        """
        of_runs = self._logs[row].get(group, {}).values()
        means = [log for each in of_runs for own, log in each.items() if target in ("", own)]
        if not means:
            return None
        return Rounds(
            values={number: math.exp(mean) for number, mean in enumerate(means)},
            unit=row[2],
            resolution_share=self._resolution_share[row],
            is_reported=row[3],
        )

    def _others(self, groups: Sequence[str]) -> list[OtherFact]:
        """Return what differs between the groups, apart from the fact itself."""
        known: dict[str, Difference] = {}
        for _, likely in self._differences:
            known |= {path: each for path, each in likely.items() if path not in known}
        found = []
        for path, first in known.items():
            if path.endswith(OWN_PATHS[self._fact]):
                continue
            values: dict[str, dict[str, None]] = {group: {} for group in groups}
            for group, likely in self._differences:
                value = likely[path].b if path in likely else first.a
                values[group][value_phrase(path, value)] = None
            if len({frozenset(each) for each in values.values()}) > 1:
                texts = [", ".join(values[group]) for group in groups]
                found.append(OtherFact(words=first.words, values=texts))
        return found


def _mean_log(rounds: Rounds) -> float:
    """Return the mean logarithm of a run's rounds; minus infinity where a round measured 0."""
    values = rounds.values.values()
    return statistics.fmean(map(math.log, values)) if min(values) > 0 else -math.inf


def _p_value(a: Rounds | None, b: Rounds | None) -> float | None:
    if a is None or b is None or min(len(a.values), len(b.values)) < 2:
        return None
    of = contrast(a, b, paired=False)
    return None if of is None else p_value(of)


def _estimate(rounds: Rounds | None) -> Estimate | None:
    if rounds is None:
        return None
    values = list(rounds.values.values())
    return estimate_of_rounds(values, rounds.unit, resolution_share=rounds.resolution_share)
