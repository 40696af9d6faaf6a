"""Finding ``stall``: requests were outstanding and none completed, for longer than usual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.findings.context import Context, identities, service_times
from seatrial.findings.rule import from_samples
from seatrial.results.model import Stall
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.wording import format_duration_s, format_plural
from seatrial.topic import topic_of

MEDIAN_FACTOR = 4.0
"""A gap shorter than so many median latencies is the device's usual pace, not a stall."""
CRITICAL_S = 1.0
WARNING_S = 0.2
WARNING_SHARE = 0.01
EXAMPLES_MAX = 8


@dataclass(frozen=True)
class StallOccurrence:
    """One stall and where it was seen."""

    summary: CellSummary
    round: int
    stall: Stall


def gaps_of(summary: CellSummary) -> tuple[list[StallOccurrence], list[StallOccurrence], float]:
    """Return a cell's true stalls, its gaps of usual pace, and its median latency in s.

    The median is that of the service times over all rounds, so that requests which queue behind
    a stall do not raise the bar for it. Without any completion there is no pace to judge by:
    such a cell is told by ``nothing_completed``.
    """
    times = service_times(summary.samples)
    if times.count == 0:
        return [], [], 0.0
    median_s = times.percentile_ns(50) / 1e9
    seen = [
        StallOccurrence(summary, sample.round, stall)
        for sample in summary.samples
        for stall in sample.stalls
    ]
    true = [one for one in seen if one.stall.length_s > MEDIAN_FACTOR * median_s]
    usual = [one for one in seen if one.stall.length_s <= MEDIAN_FACTOR * median_s]
    return true, usual, median_s


@from_samples(rank=170, section="Time", sees_replays=True, holds_in_lab=False)
def stall(context: Context) -> list[Finding]:
    """Find stalls, one finding for each cause, the cells of a cause merged.

    Means:
        Requests were outstanding and none completed, for longer than is usual there. The cause,
        by what was seen for at least half of the stall:

        - `device`: the block layer had requests in flight, or threads waited for block I/O
        - `filesystem`: threads were blocked in the kernel above an idle block layer
        - `cgroup_throttle`: threads waited, and a limit on I/O of our control group explains for
          how long
        - `cpu_quota`: our threads did not run, and for as long a quota of processor time stopped
          them
        - `generator`: our threads did not run: waiting for a processor, stolen from by the host, or
          stopped
        - `unknown`: none of these held for half of it, or the counters could not be read

        Behind `device` may be the drive, its controller or array, or the host below a virtual disk.
        A generator's stall is the machine's fault, not the drive's. `cgroup_throttle` and
        `cpu_quota` name the group and its setting.

    Decided:
        Longer than the study's threshold (50 ms by default, 500 ms of a database) *and* than 4
        times the median service time of the cell over all rounds; shorter gaps are `slow_device`.
        Edges are completions and starts, not the moments at which somebody looked. Critical from 1
        s, unless the generator or a CPU quota caused it; warning from 0.2 s, or where stalls took
        more than 1 % of all time measured; else note.

    Do:
        Device: kernel log, `smartctl -x`, `iostat -x 1` beside a longer run. File system: what was
        blocked (`dmesg -T | grep -i "blocked for more"`), timers of snapshots, fstrim and backups.
        Control group: raise the limit or the quota, or run in another group. Generator: stop other
        work and repeat. Unknown: repeat longer, as root.
    """
    seen = [one for summary in context.cells for one in gaps_of(summary)[0]]
    causes = sorted({one.stall.cause for one in seen}, key=list(_CAUSES).index)
    return [_of_cause(context, [s for s in seen if s.stall.cause == cause]) for cause in causes]


def _of_cause(context: Context, seen: Sequence[StallOccurrence]) -> Finding:
    cause = seen[0].stall.cause
    concerned = list({one.summary.cell.key: one.summary for one in seen}.values())
    longest = max(seen, key=lambda one: one.stall.length_s)
    total_s = sum(one.stall.length_s for one in seen)
    measured_s = sum(sample.duration_s for sample in context.samples)
    settings = _settings(seen)
    command = topic_of(longest.summary.cell).command_for(longest.summary.cell)
    return Finding(
        kind="stall",
        severity=_severity(longest.stall, total_s / measured_s),
        cells=identities(concerned),
        sentence=_sentence(context, seen, concerned, longest, total_s),
        cause=_CAUSES[cause],
        evidence={
            "cause": cause,
            **({"cgroup_settings": settings} if settings else {}),
            "stalls_count": len(seen),
            "stalls_dropped_count": sum(s.stalls_dropped for c in concerned for s in c.samples),
            "longest_s": longest.stall.length_s,
            "total_s": total_s,
            "stalled_share": total_s / measured_s,
            "examples": [_example(one) for one in _longest_first(seen)[:EXAMPLES_MAX]],
        },
        next=_NEXT[cause].format(command=command, group=_group(longest.stall)),
    )


def _longest_first(seen: Sequence[StallOccurrence]) -> list[StallOccurrence]:
    return sorted(seen, key=lambda one: -one.stall.length_s)


def _severity(longest: Stall, stalled_share: float) -> str:
    if longest.length_s >= CRITICAL_S and not longest.is_of_generator:
        return "critical"
    is_much = longest.length_s >= WARNING_S or stalled_share >= WARNING_SHARE
    return "warning" if is_much else "note"


def _group(stall: Stall) -> str:
    return str(stall.evidence.get("cgroup", "the control group"))


def _settings(seen: Sequence[StallOccurrence]) -> list[str]:
    """Return the settings of control groups that caused stalls, each as ``FOLDER/FILE VALUE``."""
    stalls = [one.stall for one in seen if "cgroup" in one.stall.evidence]
    settings = (f"{_group(stall)}/{stall.evidence['cgroup_setting']}" for stall in stalls)
    return list(dict.fromkeys(settings))


def _sentence(
    context: Context,
    seen: Sequence[StallOccurrence],
    concerned: Sequence[CellSummary],
    longest: StallOccurrence,
    total_s: float,
) -> str:
    length = format_duration_s(longest.stall.length_s)
    outstanding = format_plural(longest.stall.depth, "request")
    if len(seen) == 1:
        opening = f"I/O stood still once, for {length} with {outstanding} outstanding"
    else:
        total = format_duration_s(total_s)
        opening = (
            f"I/O stood still {len(seen)} times, {total} in all, the longest time for {length} "
            f"with {outstanding} outstanding"
        )
    return f"{opening}, in {context.of_cells(concerned)}; {_whose(longest.stall)}."


def _whose(longest: Stall) -> str:
    return _WHOSE[longest.cause].format(
        group=_group(longest), setting=longest.evidence.get("cgroup_setting", "its limit")
    )


def _example(one: StallOccurrence) -> dict[str, object]:
    return {
        "cell": one.summary.cell.key,
        "round": one.round,
        "start_s": one.stall.start_s,
        "length_s": one.stall.length_s,
        "depth": one.stall.depth,
        "operations": one.stall.operations,
        "seen": one.stall.evidence,
    }


_WHOSE = {
    "device": "the requests were with the device",
    "filesystem": "the file system held them while the device was idle",
    "cgroup_throttle": "a limit of cgroup {group} held the requests ({setting})",
    "cpu_quota": "the CPU quota of cgroup {group} stopped the load generator ({setting})",
    "generator": "this is the machine's, not the drive's",
    "unknown": "what was seen does not decide whose fault it was",
}
_CAUSES = {
    "device": (
        "The block layer had requests in flight all the while: the drive, its controller or "
        "array, the host below a virtual disk, or an I/O throttle held them. On flash the usual "
        "reasons are a full write cache being drained and garbage collection."
    ),
    "filesystem": (
        "Threads were blocked above an idle block layer: a journal commit, a freeze (fsfreeze, "
        "snapshot, backup), a lock, or a network file system waiting for its server."
    ),
    "cgroup_throttle": (
        "The load had reached a limit that a control group sets on I/O to this device "
        "(blkio.throttle or io.max); requests waited above the device until the limit let them "
        "pass."
    ),
    "cpu_quota": (
        "The control group of the load generator had used up its processor time (cpu.max or "
        "cpu.cfs_quota_us), and the kernel stopped its threads until the next period. The drive "
        "may have been ready."
    ),
    "generator": (
        "The threads that make the load were not running: they waited for a processor, the host "
        "took it away (steal), or the process was stopped. The drive may have been ready."
    ),
    "unknown": (
        "The stall was too short or the counters that tell the cause (schedstat, /proc/stat, the "
        "device's requests in flight) cannot be read here."
    ),
}
_NEXT = {
    "device": (
        "Look for resets and time-outs with 'dmesg -T | tail -50' and at the drive with "
        "'smartctl -x DEVICE'; then repeat the cell longer with '{command}' and watch "
        "'iostat -x 1' beside it."
    ),
    "filesystem": (
        "Look at what was blocked with 'dmesg -T | grep -i \"blocked for more\"', at timers for "
        "snapshots, fstrim and backups, and repeat on the bare device or another file system."
    ),
    "cgroup_throttle": (
        "Raise the limit ('grep . {group}/blkio.throttle.*_device {group}/io.max') or run in "
        "another control group, then repeat the cell with '{command}'. Where the database will run "
        "under the same limit, the figures are the ones that it will see."
    ),
    "cpu_quota": (
        "Raise the quota of {group} (cpu.max or cpu.cfs_quota_us) or run in another control "
        "group, then repeat the cell with '{command}'."
    ),
    "generator": (
        "Stop other work on this machine ('top', 'vmstat 1': columns r and st), run "
        "'seatrial check', and repeat; on a virtual machine choose one with its own processors."
    ),
    "unknown": (
        "Repeat the cell longer with '{command}', as root if possible, so that the block "
        "layer's counters can be read."
    ),
}
