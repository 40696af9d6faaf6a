"""What an array loses in its years: many worlds with drawn rates, and lives of arrays in each.

A world is one value for everything that is not known: the failure rate (posterior of failures in so
many drive-years), how long a rebuild takes, unreadable bits, the share of failures with a common
cause. In a world lives of a group of drives are simulated from failure to failure. What follows in
the time without full redundancy is not drawn, but its probability computed and summed up, as losses
are too rare to be drawn. No mean time to data loss is given: it assumes one rate and says nothing
about five years (Greenan, Plank, Wylie, "Mean time to meaningless", HotStorage 2010).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from seatrial.published import Amount, Count, one_of
from seatrial.trials.plan.analysis.array import Array, Groups
from seatrial.trials.plan.analysis.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from seatrial.catalogue.facts import FieldFailures

HOURS_PER_YEAR: Final = 8766.0
WORLDS: Final = 600
LIVES: Final = 400
"""Of each world."""
FAILURES_MAX: Final = 10_000
"""Of a group in one life: a bound for the loop."""
LOST_BYTES: Final = {"md": 4096.0, "btrfs": 4096.0, "zfs": 131072.0}
"""What an unreadable sector without redundancy costs; with ``hardware`` the array is lost.

md keeps the array and loses the block (measured: 3 bad sectors, 12 KiB lost, array clean); ZFS
loses the record.
"""
ENDS_PERCENT: Final = (5, 95)


class FailureRate(msgspec.Struct, frozen=True, kw_only=True):
    """How often drives fail: from a count, or from what models differ in.

    Attributes:
        failures: How many were seen.
        drive_years: In so many years of service; 0 where the model is not known.
        models: Failures and drive-years of other models, of which this one may be any.
        typed: Failures per drive-year, in place of all these.
        origin: Where it is from.
    """

    failures: Count = 0
    drive_years: Amount = 0.0
    models: list[tuple[int, float]] = []
    typed: Figure | None = None
    origin: str

    def draw(self, random: np.random.Generator, worlds: int) -> NDArray[np.float64]:
        """Return failures per drive-year in so many worlds, of Gamma(failures + 1/2, years)."""
        import numpy as np  # noqa: PLC0415 - numpy is for analyses only

        if self.typed is not None:
            return self.typed.at(random.standard_normal(worlds))
        if self.drive_years > 0:
            return np.asarray(random.gamma(self.failures + 0.5, 1 / self.drive_years, worlds))
        known = np.array(self.models, dtype=np.float64)
        picked = known[random.integers(0, len(known), worlds)]
        return np.asarray(random.gamma(picked[:, 0] + 0.5, 1 / picked[:, 1]))


def rate_of_model(model: str, failures: Sequence[FieldFailures], today_words: str) -> FailureRate:
    """Return the failure rate of a model in the field; of one that is not known, of all models.

    Args:
        model: As a user writes it; a part of the catalogue's name is enough.
        failures: Rows of the catalogue.
        today_words: The origin of these rows.
    """
    words = model.lower().split()
    fitting = [each for each in failures if words and all(word in each.model for word in words)]
    if fitting:
        count, years = sum(e.failures for e in fitting), sum(e.drive_years for e in fitting)
        names = ", ".join(each.model for each in fitting[:2])
        return FailureRate(
            failures=count,
            drive_years=years,
            origin=f"{today_words}, {names}: {count} failures in {years:,.0f} drive-years",
        )
    usable = [(e.failures, e.drive_years) for e in failures if e.confidence != "low"]
    return FailureRate(
        models=usable,
        origin=f"{today_words}, any of {len(usable)} models of hard disks, as this one is unknown",
    )


class Assumed(msgspec.Struct, frozen=True, kw_only=True):
    """What the risk of an array depends on.

    Attributes:
        failures: How often drives fail.
        rebuild_h: How long a rebuild takes.
        replace_h: How long it takes until a failed drive is replaced.
        detect_h: How long it takes until a spare takes over.
        unreadable_per_bit: Unreadable bits per bit read.
        common_share: Share of the failures that take other drives with them.
        on_unreadable: What the backend does with an unreadable sector.
        years: How long the array lives.
    """

    failures: FailureRate
    rebuild_h: Figure
    replace_h: Figure
    detect_h: Figure
    unreadable_per_bit: Figure
    common_share: Figure
    on_unreadable: Annotated[str, one_of("md", "btrfs", "zfs", "hardware")] = "md"
    years: Amount = 5.0


class Ranged(msgspec.Struct, frozen=True, kw_only=True):
    """A mean over all worlds, and what 90 % of the worlds lie between.

    Attributes:
        mean: Over all worlds.
        low: 5 % of the worlds are below.
        high: 5 % of the worlds are above.
    """

    mean: Amount
    low: Amount
    high: Amount


class Risk(msgspec.Struct, frozen=True, kw_only=True):
    """What an array risks in its years.

    Attributes:
        array: The array.
        assumed: What it follows from.
        lost: Probability that the array is lost.
        by_drives: The part of it by more failed drives than it tolerates.
        by_common: The part by a common cause.
        by_unreadable: The part by unreadable sectors; 0 unless these lose an array.
        unreadable: Probability that anything becomes unreadable while the array survives.
        lost_bytes: Expected bytes lost, of both.
        degraded_days: Days without full redundancy, when it is slower than its objective.
        failed_drives: Drives that fail.
        error_share: Standard error of the simulated mean of ``lost`` as a share of it.
        worlds: How many worlds.
        lives: Lives in each.
    """

    array: Array
    assumed: Assumed
    lost: Ranged
    by_drives: Ranged
    by_common: Ranged
    by_unreadable: Ranged
    unreadable: Ranged
    lost_bytes: Ranged
    degraded_days: Ranged
    failed_drives: Ranged
    error_share: Amount
    worlds: Count
    lives: Count


def risk_of(
    array: Array,
    assumed: Assumed,
    *,
    seed: int = 1,
    worlds: int = WORLDS,
    lives: int = LIVES,
    exponential: bool = False,
) -> Risk:
    """Return what an array risks.

    Args:
        array: The array.
        assumed: What it depends on.
        seed: Of the drawn worlds; the same one gives comparable arrays the same worlds.
        worlds: How many.
        lives: Lives of a group in each.
        exponential: Whether repairs take exponential times, as in a Markov chain, and not always
            the same in a world.
    """
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    random = np.random.default_rng(seed)
    drawn = _draw(assumed, random, worlds)
    state = _lives(
        array,
        assumed,
        drawn,
        random=np.random.default_rng(seed + 1),
        lives=lives,
        exponential=exponential,
    )
    count = array.groups.number

    def of_worlds(per_life: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(per_life.reshape(worlds, lives).mean(axis=1))

    def of_array(per_life: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(-np.expm1(count * np.log1p(-np.minimum(of_worlds(per_life), 1 - 1e-15))))

    lost = of_array(state.lost)
    kept = of_worlds(state.unreadable_bytes) * count
    batches = of_worlds(state.lost)
    error = _error_share(batches)
    return Risk(
        array=array,
        assumed=assumed,
        lost=_ranged(lost),
        by_drives=_ranged(of_array(state.by_drives)),
        by_common=_ranged(of_array(state.by_common)),
        by_unreadable=_ranged(of_array(state.by_unreadable)),
        unreadable=_ranged(of_array(state.unreadable)),
        lost_bytes=_ranged(lost * array.usable_bytes + kept),
        degraded_days=_ranged(of_worlds(state.degraded_h) * count / 24),
        failed_drives=_ranged(of_worlds(state.failures) * count),
        error_share=error,
        worlds=worlds,
        lives=lives,
    )


@dataclass
class _Lives:
    """Sums of each life of a group; shape (worlds * lives,)."""

    lost: NDArray[np.float64]
    by_drives: NDArray[np.float64]
    by_common: NDArray[np.float64]
    by_unreadable: NDArray[np.float64]
    unreadable: NDArray[np.float64]
    unreadable_bytes: NDArray[np.float64]
    degraded_h: NDArray[np.float64]
    failures: NDArray[np.float64]


@dataclass(frozen=True)
class _Worlds:
    """What was drawn of each world; shape (worlds,)."""

    per_h: NDArray[np.float64]
    rebuild_h: NDArray[np.float64]
    replace_h: NDArray[np.float64]
    detect_h: NDArray[np.float64]
    unreadable_per_bit: NDArray[np.float64]
    common_share: NDArray[np.float64]

    def repeated(self, lives: int) -> _Worlds:
        """Return each world so many times."""
        import numpy as np  # noqa: PLC0415 - numpy is for analyses only

        return _Worlds(*(np.repeat(each, lives) for each in vars(self).values()))


def _draw(assumed: Assumed, random: np.random.Generator, worlds: int) -> _Worlds:
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    normal = random.standard_normal((5, worlds))
    return _Worlds(
        per_h=assumed.failures.draw(random, worlds) / HOURS_PER_YEAR,
        rebuild_h=assumed.rebuild_h.at(normal[0]),
        replace_h=assumed.replace_h.at(normal[1]),
        detect_h=assumed.detect_h.at(normal[2]),
        unreadable_per_bit=assumed.unreadable_per_bit.at(normal[3]),
        common_share=np.minimum(assumed.common_share.at(normal[4]), 1.0),
    )


def _lives(
    array: Array,
    assumed: Assumed,
    drawn: _Worlds,
    *,
    random: np.random.Generator,
    lives: int,
    exponential: bool,
) -> _Lives:
    """Simulate lives of one group from failure to failure.

    The first failure is drawn within the life, and all that follows weighted by its probability.
    """
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    groups = array.groups
    world = drawn.repeated(lives)
    number = len(world.per_h)
    end_h = assumed.years * HOURS_PER_YEAR
    rate_per_h = np.maximum(groups.members * world.per_h, 1e-300)
    alive, clean = -np.expm1(-rate_per_h * end_h), np.ones(number)
    now_h = -np.log1p(-random.random(number) * alive) / rate_per_h
    spare_at_h = np.zeros((number, max(array.spares, 1)))
    spare_at_h[:, array.spares :] = np.inf
    found = _Lives(*(np.zeros(number) for _ in range(8)))
    for _ in range(FAILURES_MAX):
        active = now_h < end_h
        if not active.any():
            break
        wait_h = _wait_h(world, spare_at_h, now_h, active)
        rebuild_h = world.rebuild_h
        length_h = (wait_h + rebuild_h) * (random.exponential(size=number) if exponential else 1.0)
        window_h = np.minimum(length_h, np.maximum(end_h - now_h, 0.0))
        next_h = rebuild_h * (random.exponential(size=number) if exponential else 1.0)
        drives, bare = _more_failures(groups, world.per_h, window_h, next_h, random)
        common = world.common_share if groups.tolerated else np.zeros(number)
        bits = 8.0 * groups.read_members * array.drive_bytes * world.unreadable_per_bit * bare
        some = -np.expm1(-bits)
        is_fatal = assumed.on_unreadable == "hardware"
        fatal = some if is_fatal else np.zeros(number)
        weight = np.where(active, alive, 0.0)
        found.failures += weight
        found.by_drives += weight * drives
        found.by_common += weight * common
        found.by_unreadable += weight * fatal
        survived = (1 - drives) * (1 - common) * (1 - fatal)
        found.lost += weight * (1 - survived)
        if not is_fatal:
            found.unreadable += weight * survived * clean * some
            clean = np.where(active, clean * (1 - some), clean)
            found.unreadable_bytes += weight * survived * bits * LOST_BYTES[assumed.on_unreadable]
        alive = np.where(active, alive * survived, alive)
        found.degraded_h += weight * window_h
        now_h = np.where(active, now_h + window_h, now_h)
        now_h += random.exponential(size=number) / rate_per_h
    return found


def _wait_h(
    world: _Worlds,
    spare_at_h: NDArray[np.float64],
    now_h: NDArray[np.float64],
    active: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Return how long a rebuild waits for a drive; the spare that is taken is replaced later."""
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    first = spare_at_h.argmin(axis=1)
    rows = np.arange(len(first))
    available_h = spare_at_h[rows, first]
    has_spare = np.isfinite(available_h)
    with_spare_h = np.maximum(world.detect_h, available_h - now_h)
    wait_h = np.where(has_spare, np.minimum(with_spare_h, world.replace_h), world.replace_h)
    taken = active & has_spare
    spare_at_h[rows[taken], first[taken]] = (now_h + world.replace_h)[taken]
    return np.asarray(wait_h)


def _more_failures(
    groups: Groups,
    per_h: NDArray[np.float64],
    window_h: NDArray[np.float64],
    next_h: NDArray[np.float64],
    random: np.random.Generator,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the probability that too many drives fail, and that none more may.

    The times of the failures before the last one are drawn within the window, so that the
    probability of the last one is of what remains of it; drives are rebuilt one after the other.
    """
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    if groups.tolerated == 0:
        return np.ones_like(per_h), np.zeros_like(per_h)

    def rebuild(
        of_h: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        probability, bare, left_h = np.ones_like(per_h), np.ones_like(per_h), of_h.copy()
        for failed in range(1, groups.tolerated + 1):
            rate_per_h = np.maximum((groups.members - failed) * per_h, 1e-300)
            within = -np.expm1(-rate_per_h * left_h)
            at_h = -np.log1p(-random.random(len(per_h)) * within) / rate_per_h
            bare = probability.copy()
            probability = probability * within
            left_h = np.maximum(left_h - at_h, 0.0)
        return probability, bare, within

    probability, bare, last = rebuild(window_h)
    if groups.tolerated > 1:
        # A drive that failed during the rebuild is rebuilt next, with others that may fail.
        again, _, _ = rebuild(next_h)
        probability = probability + bare * (1 - last) * again
    return probability, bare


def _ranged(values: NDArray[np.float64]) -> Ranged:
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    low, high = np.percentile(values, ENDS_PERCENT)
    return Ranged(mean=float(values.mean()), low=float(low), high=float(high))


def _error_share(worlds: NDArray[np.float64]) -> float:
    """Return the standard error of the mean over all worlds, as a share of the mean."""
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    mean = float(worlds.mean())
    if mean == 0:
        return 0.0
    return float(np.std(worlds, ddof=1) / np.sqrt(len(worlds)) / mean)
