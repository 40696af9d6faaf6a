"""Finding ``temperature``: the drive throttled, was too hot, or warmed up considerably."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import Context, drives, smart_growth
from seatrial.findings.rule import from_samples
from seatrial.published import FLATTENED, HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_plural

WARMING_C_MAX = 15.0
_THROTTLE_KEYS = (
    "throttle_light_count",
    "throttle_heavy_count",
    "throttle_light_s",
    "throttle_heavy_s",
    "warning_temperature_minutes",
    "critical_temperature_minutes",
)
_CAUSE = (
    "Load heats a drive. Without enough airflow or a heat sink it throttles to stay below its "
    "limit, and later rounds measure the cooling instead of the drive."
)
_NEXT = (
    "Improve airflow or add a heat sink, let the drive cool down and repeat. Check in the timeline "
    "whether the slow rounds are the late ones."
)


class HeatLoggedFigures(Figures, frozen=True, kw_only=True, tag="temperature"):
    """Figures of ``temperature``: heat logged."""

    thermal_messages_count: float

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                "The kernel logged overheating or thermal throttling "
                f"{format_plural(int(self.thermal_messages_count), 'time')} "
                "during the run."
            ),
            cause=_CAUSE,
            next=_NEXT,
        )


@from_samples(rank=260, section="Time", sees_replays=True, holds_in_lab=False)
def temperature(context: Context) -> list[Finding]:
    """Find thermal throttling (counted or logged), a limit reached, or a rise above 15 °C.

    Means:
        The drive throttled because of heat, reached its temperature limit, or warmed up
        considerably.

    Decided:
        Critical: the drive's counters of throttling or of minutes above the limit increased.
        Warning: a reading reached the drive's warning limit (or its critical limit if it reports
        no warning limit), or the kernel logged overheating. Note: a rise of more than 15 °C. The
        temperature is read before and after the run and after each sample.

    Do:
        Improve airflow or add a heat sink, let the drive cool down and repeat. Check whether the
        slow rounds are the late ones.
    """
    found = [finding for name in drives(context) for finding in _of_drive(context, name)]
    logged = context.after.kernel_log.by_kind.get("thermal")
    if logged:
        figures = HeatLoggedFigures(thermal_messages_count=logged)
        found += [Finding(severity="warning", cells=[], figures=figures)]
    return found


class ThrottledFigures(Figures, frozen=True, kw_only=True, tag="temperature"):
    """Figures of ``temperature``: throttled."""

    device: str
    temperature_c_max: float | None
    temperature_limit_c: float | None
    others: Annotated[dict[str, int], FLATTENED]

    def text(self) -> FindingText:
        at = (
            f" (maximum {self.temperature_c_max:.0f} °C)"
            if self.temperature_c_max is not None
            else ""
        )
        return FindingText(
            sentence=f"{self.device} throttled because of heat during the run{at}.",
            cause=_CAUSE,
            next=_NEXT,
        )


class AtLimitFigures(Figures, frozen=True, kw_only=True, tag="temperature"):
    """Figures of ``temperature``: at limit."""

    device: str
    temperature_c_max: float
    temperature_limit_c: float

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"{self.device} reached {self.temperature_c_max:.0f} °C; its limit is "
                f"{self.temperature_limit_c:.0f} °C."
            ),
            cause=_CAUSE,
            next=_NEXT,
        )


class WarmedFigures(Figures, frozen=True, kw_only=True, tag="temperature"):
    """Figures of ``temperature``: warmed."""

    device: str
    temperature_c_max: float
    temperature_limit_c: float | None
    first_c: Annotated[float, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"{self.device} warmed up from {self.first_c:.0f} °C to "
                f"{self.temperature_c_max:.0f} °C."
            ),
            cause=_CAUSE,
            next=_NEXT,
        )


def _of_drive(context: Context, name: str) -> list[Finding]:
    """Return the most severe result of one drive's counters, limits and readings."""
    grown = {
        key: growth for key in _THROTTLE_KEYS if (growth := smart_growth(context, name, key)) > 0
    }
    readings_c = _readings_c(context, name)
    warmest_c = max(readings_c, default=None)
    limit_c = _limit_c(context, name)
    if grown:
        throttled = ThrottledFigures(
            device=name,
            temperature_c_max=warmest_c,
            temperature_limit_c=limit_c,
            others=grown,
        )
        return [Finding(severity="critical", cells=[], figures=throttled)]
    if warmest_c is None:
        return []
    if limit_c is not None and warmest_c >= limit_c:
        at_limit = AtLimitFigures(
            device=name, temperature_c_max=warmest_c, temperature_limit_c=limit_c
        )
        return [Finding(severity="warning", cells=[], figures=at_limit)]
    first_c = readings_c[0]
    if warmest_c - first_c > WARMING_C_MAX:
        warmed = WarmedFigures(
            device=name,
            temperature_c_max=warmest_c,
            temperature_limit_c=limit_c,
            first_c=first_c,
        )
        return [Finding(severity="note", cells=[], figures=warmed)]
    return []


def _limit_c(context: Context, name: str) -> float | None:
    """Return the drive's warning limit, else its critical limit; None if it reports neither."""
    found = (context.after.health.get(name), context.before.health.get(name))
    healths = [health for health in found if health]
    limits_c = [
        *(health.temperature_warning_c for health in healths),
        *(health.temperature_critical_c for health in healths),
    ]
    return next((limit_c for limit_c in limits_c if limit_c is not None), None)


def _readings_c(context: Context, name: str) -> list[float]:
    """Return a drive's temperatures over time.

    A sample contains the temperature of the first device of its target only; the health in the
    fingerprint is that of the first target.
    """
    first = next(iter(context.before.physical_devices), None)
    before, after = context.before.health.get(name), context.after.health.get(name)
    of_first_target = [
        sample
        for summary in context.cells
        if context.before_of(summary) is context.before
        for sample in summary.samples
    ]
    samples = sorted(of_first_target, key=lambda sample: sample.started_at)
    during = [sample.counters.get("temperature_c") for sample in samples]
    readings = [
        before.temperature_c if before else None,
        *(during if first and first.name == name else []),
        after.temperature_c if after else None,
    ]
    return [reading for reading in readings if reading is not None]
