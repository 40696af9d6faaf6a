"""Finding ``stall``: requests were outstanding and none completed for unusually long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated

from seatrial.findings.context import (
    AffectedCells,
    Context,
    StallOccurrence,
    gaps_of,
    identities,
    stalls_dropped_of,
)
from seatrial.findings.rule import from_samples
from seatrial.grouping import grouped
from seatrial.published import FLATTENED, HIDDEN
from seatrial.results.model import Stall
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_count, format_duration_s, format_plural
from seatrial.topic import topic_of

CRITICAL_S = 1.0
WARNING_S = 0.2
WARNING_SHARE = 0.01
EXAMPLES_MAX = 8
IDLE_SHARE_MAX = 0.1
IDLE_S_MIN = 3.0
"""At least two readings, one a second, are completely within such a stall."""


@from_samples(rank=170, section="Time", sees_replays=True, holds_in_lab=False)
def stall(context: Context) -> list[Finding]:
    """Find stalls, one finding per cause, cells merged.

    Means:
        Requests were outstanding and none completed for unusually long. The cause is the state
        observed for at least half of the stall:

        - `device`: requests were in flight in the block layer, or threads waited for block I/O
        - `filesystem`: threads were blocked in the kernel while the block layer was idle
        - `cgroup_throttle`: threads waited, and an I/O limit of our control group explains the
          duration
        - `cpu_quota`: our threads did not run, and a CPU quota throttled them for as long
        - `generator`: our threads did not run: waiting for a CPU, CPU steal, or stopped; of a
          database, its clients sent nothing, or nothing could be read either
        - `unknown`: none of these for half of the stall, or the counters could not be read; of a
          database, the readings of each second at least tell whether the device was idle

        `device` covers the drive, its controller or array, and the host below a virtual disk. If no
        request was seen in flight at the device, the text says so. A
        `generator` stall is caused by the machine, not by the drive. `cgroup_throttle` and
        `cpu_quota` name the group and its setting.

    Decided:
        Longer than the study's threshold (default 50 ms; 500 ms for a database) *and* longer than 4
        times the median service time of the test over all rounds, or of the outstanding kinds of
        requests if all of these are slower; shorter gaps are `slow_device`. In a replay a gap
        counts from when the first open statement is overdue: after 4 times its duration in the
        capture. A statement whose duration the capture lacks is no stall as long as it is open
        alone.
        A stall begins and ends at completions or starts of requests, not at the times of polling.
        Critical from 1 s, unless caused by the generator or a CPU quota; warning from 0.2 s, or if
        stalls took more than 1 % of the total time; otherwise note.

    Do:
        Device: check the kernel log, `smartctl -x`, and `iostat -x 1` during a longer run. File
        system: check timers for snapshots, fstrim and backups (`systemctl list-timers`); see what
        is blocked during the next stall (`ps -eo stat,pid,wchan:30,cmd | grep ^D`). Control group:
        raise the limit or the quota, or run in another group. Generator: stop other processes and
        repeat. Unknown: repeat longer, as root.
    """
    seen = [one for summary in context.cells for one in gaps_of(summary)[0]]
    causes = sorted({one.stall.cause for one in seen}, key=list(_CAUSES).index)
    dropped = _dropped_by_cause(seen)
    return [
        _of_cause(context, [s for s in seen if s.stall.cause == cause], dropped[cause])
        for cause in causes
    ]


def _dropped_by_cause(seen: Sequence[StallOccurrence]) -> Counter[str]:
    """Return how many stalls were not stored, by the cause of most stalls of the same cell."""
    by_cell = grouped(seen, lambda one: one.summary.cell.key)
    dropped: Counter[str] = Counter()
    for own in by_cell.values():
        ((cause, _),) = Counter(one.stall.cause for one in own).most_common(1)
        dropped[cause] += stalls_dropped_of(own[0].summary)
    return dropped


class StallFigures(Figures, frozen=True, kw_only=True, tag="stall"):
    cause: str
    others: Annotated[dict[str, list[str]], FLATTENED]
    stalls_count: int
    stalls_dropped_count: int
    longest_s: float
    total_s: float
    stalled_share: float
    examples: list[dict[str, object]]
    longest_stall: Annotated[Stall, HIDDEN]
    concerned: Annotated[AffectedCells, HIDDEN]
    command: Annotated[str, HIDDEN]

    @property
    def _shown_cause(self) -> str:
        """The cause; ``idle`` if all that is known is that the device was.

        ``above_device`` if no look at its longest stalls found a request at the device.
        """
        if self.longest_stall.is_of_stopped_generator:
            return "stopped"
        if self.cause == "device" and not any(map(_is_busy, self.examples)):
            return "above_device"
        if self.cause != "unknown" or self.longest_s < IDLE_S_MIN:
            return self.cause
        busy_share = self.longest_stall.evidence.get("device_busy_share_max", 1.0)
        return "idle" if busy_share <= IDLE_SHARE_MAX else self.cause

    def text(self) -> FindingText:
        dropped = self.stalls_dropped_count
        more = f", and {format_count(dropped)} more that were not stored" if dropped else ""
        return FindingText(
            sentence=(
                f"{_opening(self.longest_stall, self.stalls_count, self.total_s)} in "
                f"{self.concerned}{more}; {_origin(self._shown_cause, self.longest_stall)}."
            ),
            cause=_CAUSES[self._shown_cause],
            next=_NEXT[self._shown_cause].format(
                command=self.command, group=_group(self.longest_stall)
            ),
        )

    def in_short(self, cells_count: int) -> str:
        del cells_count
        longest = format_duration_s(self.longest_s)
        what = _OF_MACHINE.get(self._shown_cause, "stalled")
        cause = _IN_SHORT.get(self._shown_cause, self._shown_cause)
        text = "" if self.cause in _OF_MACHINE else f" ({cause})"
        if self.stalls_count == 1:
            return f"{what} once for {longest}{text}"
        return f"{what} {format_count(self.stalls_count)} times for up to {longest}{text}"


def _of_cause(context: Context, seen: Sequence[StallOccurrence], dropped: int) -> Finding:
    cause = seen[0].stall.cause
    concerned = list({one.summary.cell.key: one.summary for one in seen}.values())
    longest = max(seen, key=lambda one: one.stall.length_s)
    total_s = sum(one.stall.length_s for one in seen)
    measured_s = sum(sample.duration_s for sample in context.samples)
    settings = _settings(seen)
    command = topic_of(longest.summary.cell).command_for(longest.summary.cell)
    return Finding(
        severity=_severity(longest.stall, total_s / measured_s),
        cells=identities(concerned),
        figures=StallFigures(
            cause=cause,
            others={"cgroup_settings": settings} if settings else {},
            stalls_count=len(seen),
            stalls_dropped_count=dropped,
            longest_s=longest.stall.length_s,
            total_s=total_s,
            stalled_share=total_s / measured_s,
            examples=[_example(one) for one in _longest_first(seen)[:EXAMPLES_MAX]],
            longest_stall=longest.stall,
            concerned=context.affected_cells(concerned),
            command=command,
        ),
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
    """Return the cgroup settings that caused stalls, each as ``FOLDER/FILE VALUE``."""
    stalls = [one.stall for one in seen if "cgroup" in one.stall.evidence]
    settings = (f"{_group(stall)}/{stall.evidence['cgroup_setting']}" for stall in stalls)
    return list(dict.fromkeys(settings))


def _opening(longest: Stall, count: int, total_s: float) -> str:
    length = format_duration_s(longest.length_s)
    outstanding = format_plural(longest.depth, "request")
    noun = "stall" if longest.cause in _OF_MACHINE else "I/O stall"
    if count == 1:
        return f"One {length} {noun} with {outstanding} outstanding"
    return (
        f"{format_count(count)} {noun}s, {format_duration_s(total_s)} in total, the longest "
        f"{length} with {outstanding} outstanding,"
    )


def _origin(cause: str, longest: Stall) -> str:
    return _ORIGINS[cause].format(
        group=_group(longest), setting=longest.evidence.get("cgroup_setting", "its limit")
    )


def _is_busy(example: Mapping[str, object]) -> bool:
    """Return whether the device had requests in flight in a stall, or that is not known."""
    seen = example["seen"]
    return not isinstance(seen, Mapping) or seen.get("looks_device_busy") != 0


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


_ORIGINS = {
    "device": "requests were pending at the device",
    "above_device": "requests were pending, but none was seen in flight at the device",
    "filesystem": "requests were blocked in the file system while the device was idle",
    "cgroup_throttle": "cgroup {group} throttled the requests ({setting})",
    "cpu_quota": "the CPU quota of cgroup {group} throttled the load generator ({setting})",
    "generator": "caused by CPU contention on the host, not by the drive",
    "stopped": "the load generator was stopped or paused, which the drive did not cause",
    "idle": "the device was idle meanwhile",
    "unknown": "the cause could not be determined",
}
_CAUSES = {
    "device": (
        "The block layer had requests in flight throughout: they were held up by the drive, its "
        "controller or array, the host below a virtual disk, or an I/O throttle. On flash the "
        "usual reasons are the flush of a full write cache and garbage collection."
    ),
    "above_device": (
        "Something above the device held the requests, such as an I/O limit of a control group; or "
        "they were at another disk below the target; or the device does not count requests in "
        "flight (network file systems, queue/iostats 0)."
    ),
    "filesystem": (
        "Threads were blocked while the block layer was idle: a journal commit, a freeze "
        "(fsfreeze, snapshot, backup), a lock, or a network file system waiting for its server."
    ),
    "cgroup_throttle": (
        "The load reached the I/O limit of a control group for this device (blkio.throttle or "
        "io.max); requests were queued above the device."
    ),
    "cpu_quota": (
        "The control group of the load generator had exhausted its CPU time (cpu.max or "
        "cpu.cfs_quota_us), and the kernel throttled its threads until the next period. The drive "
        "may have been ready."
    ),
    "generator": (
        "The threads of the load generator were not running: they waited for a CPU, the "
        "hypervisor took it away (steal), or the process was stopped. The drive may have been "
        "ready."
    ),
    "stopped": (
        "The load generator did not run, and no wait for a CPU was seen: it was stopped (Ctrl-Z, "
        "SIGSTOP), or its container or virtual machine was paused. The drive may have been ready."
    ),
    "idle": (
        "The device had hardly any request, so the server sent none: a frozen or blocked file "
        "system (fsfreeze, snapshot, backup), a lock within the server, or it did not run."
    ),
    "unknown": (
        "The stall was too short for the counters that show the cause (schedstat, /proc/stat, "
        "requests in flight at the device), or they show none, or cannot be read here."
    ),
}
_NEXT = {
    "device": (
        "Check 'dmesg -T | tail -50' for resets and timeouts, and the drive with "
        "'smartctl -x DEVICE'; then repeat the test longer with '{command}' and watch "
        "'iostat -x 1' meanwhile."
    ),
    "above_device": (
        "Look for limits ('grep -rs . /sys/fs/cgroup --include=io.max "
        "--include=blkio.throttle.*_device'); then repeat the test longer with '{command}' and "
        "watch all disks meanwhile ('seatrial watch')."
    ),
    "filesystem": (
        "Check timers for snapshots, fstrim and backups ('systemctl list-timers'), see what is "
        "blocked during the next stall with 'ps -eo stat,pid,wchan:30,cmd | grep ^D', and repeat "
        "on the raw device or another file system."
    ),
    "cgroup_throttle": (
        "Raise the limit ('grep . {group}/blkio.throttle.*_device {group}/io.max') or run in "
        "another control group, then repeat the test with '{command}'. If the database will run "
        "under the same limit, it will see these figures."
    ),
    "cpu_quota": (
        "Raise the quota of {group} (cpu.max or cpu.cfs_quota_us) or run in another control "
        "group, then repeat the test with '{command}'."
    ),
    "generator": (
        "Stop other processes on this machine ('top', 'vmstat 1': columns r and st), run "
        "'seatrial check', and repeat; in the cloud, choose an instance with dedicated CPUs."
    ),
    "stopped": (
        "Repeat the test without the pause: look for a paused container, a snapshot or migration "
        "of the virtual machine, or a debugger."
    ),
    "idle": (
        "Check timers for snapshots, fstrim and backups ('systemctl list-timers'); during the next "
        "stall, see what is blocked with 'ps -eo stat,pid,wchan:30,cmd | grep ^D', and "
        "`wait_event` in pg_stat_activity."
    ),
    "unknown": (
        "Repeat the test longer with '{command}', as root if possible, so that the block "
        "layer's counters can be read."
    ),
}
_OF_MACHINE = {
    "generator": "CPU contention on the host stopped the load generator",
    "stopped": "the load generator was stopped",
    "cpu_quota": "a CPU quota throttled the load generator",
}
_IN_SHORT = {
    "cgroup_throttle": "throttled by a control group",
    "idle": "the device was idle",
    "above_device": "above the device",
}
