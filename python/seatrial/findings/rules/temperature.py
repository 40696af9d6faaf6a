"""Finding ``temperature``: the drive throttled, was too hot, or grew much warmer."""

from __future__ import annotations

from seatrial.findings.context import Context, drives, number, physical_devices, smart_growth
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Finding
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
    "Load warms a drive; without enough air or a heat sink it slows itself down to stay below "
    "its limit, and later rounds then measure the cooling."
)
_NEXT = (
    "Give it air or a heat sink, let it cool and repeat; look whether the slow rounds are the late "
    "ones in the timeline."
)


@from_samples(rank=260, section="Time", sees_replays=True, holds_in_lab=False)
def temperature(context: Context) -> list[Finding]:
    """Find heat: throttling that was counted or logged, a limit reached, a rise above 15 °C.

    Means:
        The drive slowed itself down for heat, reached its limit, or grew much warmer.

    Decided:
        Critical: its own counters of throttling or of minutes above the limit grew. Warning: a
        reading reached the drive's warning limit (else its critical one), or the kernel logged
        heat. Note: a rise of more than 15 °C. Readings are taken before and after the run and after
        each sample.

    Do:
        Give it air or a heat sink, let it cool, repeat; see whether the slow rounds are the late
        ones.
    """
    found = [finding for name in drives(context) for finding in _of_drive(context, name)]
    logged = number(context.after, "kernel_log", "by_kind", "thermal")
    if logged:
        found += [
            Finding(
                kind="temperature",
                severity="warning",
                cells=[],
                sentence=(
                    f"The kernel logged heat or throttling {format_plural(int(logged), 'time')} "
                    "during the run."
                ),
                cause=_CAUSE,
                evidence={"thermal_messages_count": logged},
                next=_NEXT,
            )
        ]
    return found


def _of_drive(context: Context, name: str) -> list[Finding]:
    """Return the gravest of what counters, limits and readings say of one drive."""
    grown = {
        key: growth for key in _THROTTLE_KEYS if (growth := smart_growth(context, name, key)) > 0
    }
    readings_c = _readings_c(context, name)
    warmest_c = max(readings_c, default=None)
    limit_c = _limit_c(context, name)
    evidence = {"device": name, "temperature_c_max": warmest_c, "temperature_limit_c": limit_c}
    if grown:
        at = f", {warmest_c:.0f} °C at most" if warmest_c is not None else ""
        sentence = f"{name} throttled for heat during the run{at}."
        return [
            Finding(
                kind="temperature",
                severity="critical",
                cells=[],
                sentence=sentence,
                cause=_CAUSE,
                evidence=evidence | grown,
                next=_NEXT,
            )
        ]
    if warmest_c is None:
        return []
    if limit_c is not None and warmest_c >= limit_c:
        sentence = f"{name} reached {warmest_c:.0f} °C; its limit is {limit_c:.0f} °C."
        return [
            Finding(
                kind="temperature",
                severity="warning",
                cells=[],
                sentence=sentence,
                cause=_CAUSE,
                evidence=evidence,
                next=_NEXT,
            )
        ]
    if warmest_c - readings_c[0] > WARMING_C_MAX:
        sentence = f"{name} warmed from {readings_c[0]:.0f} °C to {warmest_c:.0f} °C."
        return [
            Finding(
                kind="temperature",
                severity="note",
                cells=[],
                sentence=sentence,
                cause=_CAUSE,
                evidence=evidence,
                next=_NEXT,
            )
        ]
    return []


def _limit_c(context: Context, name: str) -> float | None:
    """Return where the drive slows down, else where it stops; None where it tells neither."""
    for key in ("temperature_warning_c", "temperature_critical_c"):
        for fingerprint in (context.after, context.before):
            limit_c = number(fingerprint, "health", name, key)
            if limit_c is not None:
                return limit_c
    return None


def _readings_c(context: Context, name: str) -> list[float]:
    """Return a drive's temperatures in order of time.

    Samples carry the temperature of the first device under their target only; the fingerprint's
    health is that of the first target.
    """
    first = next(iter(physical_devices(context.before)), {})
    of_first_target = [
        sample
        for summary in context.cells
        if context.before_of(summary) is context.before
        for sample in summary.samples
    ]
    samples = sorted(of_first_target, key=lambda sample: sample.started_at)
    during = [sample.counters.get("temperature_c") for sample in samples]
    readings = [
        number(context.before, "health", name, "temperature_c"),
        *(during if first.get("name") == name else []),
        number(context.after, "health", name, "temperature_c"),
    ]
    return [reading for reading in readings if reading is not None]
