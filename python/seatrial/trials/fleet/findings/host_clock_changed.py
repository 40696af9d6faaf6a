"""Finding ``host_clock_changed``: a host's clock stood still or jumped in a sample."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.results.fleet import HostRecord
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_duration_ns

DRIFT_SHARE_MAX: Final = 500e-6
"""Quartz differs by less than 100 millionths, and a time service slews by at most 500."""


class HostClockChangedFigures(Figures, frozen=True, kw_only=True, tag="host_clock_changed"):
    host: str
    change_ns: int
    bound_ns: int
    round: int
    is_time_of_day: bool = False

    def text(self) -> FindingText:
        direction = "ahead" if self.change_ns > 0 else "back"
        if self.is_time_of_day:
            return FindingText(
                sentence=f"The time of day of {self.host} was set {direction} by "
                f"{format_duration_ns(abs(self.change_ns))} relative to this machine (± "
                f"{format_duration_ns(self.bound_ns)}) during a sample of round {self.round + 1}.",
                cause="A time service or a person set the clock there, or here.",
                next="Figures use the monotonic clocks and remain valid; times of day in logs "
                "of that host do not match.",
            )
        return FindingText(
            sentence=f"The monotonic clock of {self.host} went {direction} by "
            f"{format_duration_ns(abs(self.change_ns))} relative to this machine (± "
            f"{format_duration_ns(self.bound_ns)}) during a sample of round {self.round + 1}.",
            cause="The machine was suspended, paused by its hypervisor or moved to another host.",
            next="Repeat the sample; use hosts that are not moved or paused.",
        )


@from_samples(rank=656, section="Hosts of a cluster", sees_replays=True)
def host_clock_changed(context: Context) -> list[Finding]:
    """Find hosts whose monotonic clock changed against ours during a sample.

    Source: adjtimex(2), the largest slew of a clock by NTP.

    Means:
        The offset of a host's clock changed during the sample. If this is the monotonic clock, the
        host may have been paused, and its slices may not match those of other hosts. The time of
        day may be set at any time, and no figure depends on it.

    Decided:
        The offset changed by more than the sum of both bounds and 500 ppm of the time between the
        readings. Critical; a warning if only the time of day changed.

    Do:
        Repeat the sample.
    """
    found = []
    for summary in context.cells:
        for sample in summary.samples:
            for host in sample.fleet.hosts if sample.fleet else ():
                change_ns, bound_ns = change_of(host)
                set_ns = time_of_day_change_ns(host)
                if abs(change_ns) <= bound_ns and abs(set_ns) <= bound_ns:
                    continue
                is_set = abs(change_ns) <= bound_ns
                figures = HostClockChangedFigures(
                    host=host.name,
                    change_ns=set_ns if is_set else change_ns,
                    bound_ns=bound_ns,
                    round=sample.round,
                    is_time_of_day=is_set,
                )
                found.append(
                    Finding(
                        severity="warning" if is_set else "critical",
                        cells=identities([summary]),
                        figures=figures,
                    )
                )
    return found


def time_of_day_change_ns(host: HostRecord) -> int:
    """Return the change of a host's time of day against ours."""
    before, after = host.clock_before, host.clock_after
    return after.wall_offset_ns - before.wall_offset_ns if after else 0


def change_of(host: HostRecord) -> tuple[int, int]:
    """Return the change of a host's clock and its tolerance (ns)."""
    before, after = host.clock_before, host.clock_after
    if after is None:
        return 0, 0
    drift_ns = DRIFT_SHARE_MAX * (after.read_at_ns - before.read_at_ns)
    return after.offset_ns - before.offset_ns, before.bound_ns + after.bound_ns + int(drift_ns)
