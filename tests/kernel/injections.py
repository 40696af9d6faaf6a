"""What freezes a device, a file system or a process for a known time; each ends by itself.

Each returns when, by the wall clock, it began and ended. An injection is a system call: it took
place between the readings before and after it, and nobody can know it closer than that.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

FIFREEZE, FITHAW = 0xC0045877, 0xC0045878  # include/uapi/linux/fs.h
PRIORITY = 10


@dataclass(frozen=True)
class Moment:
    """Something happened between two readings of the wall clock."""

    after_s: float
    before_s: float

    def distance_s(self, at_s: float) -> float:
        """How far a time lies outside of what is known; 0 inside."""
        return max(self.after_s - at_s, at_s - self.before_s, 0.0)


@dataclass(frozen=True)
class Injected:
    """A freeze, from its beginning to its end."""

    began: Moment
    ended: Moment


@contextmanager
def promptly() -> Iterator[None]:
    """Let nothing on a busy machine keep this thread waiting; what it starts is not favoured."""
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(PRIORITY))
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, parameters)


def moment(act, *arguments) -> Moment:
    with promptly():
        after_s = time.time()
        act(*arguments)
        return Moment(after_s, time.time())


_NUMBERS = itertools.count(1)


class Group:
    """A new control group of block devices, whose limits bind whoever is in it, while it lasts.

    The kernel gives out what a limit allows in slices of a tenth of a second: a first slice comes
    on top, so that T seconds at N/s may see N * (T + 0.1).
    Source: Documentation/admin-guide/cgroup-v1/blkio-controller.rst; block/blk-throttle.c.
    """

    def __init__(self) -> None:
        self.path = blkio() / f"seatrial-test-{os.getpid()}-{next(_NUMBERS)}"

    def __enter__(self) -> Group:
        self.path.mkdir()
        return self

    def __exit__(self, *_exception: object) -> None:
        remove_group(self.path)

    @property
    def entering(self) -> tuple[str, ...]:
        """A command that runs another one in the group."""
        return ("sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', str(self.path))

    def limit(self, device: str, per_s: int, unit: str = "iops") -> None:
        """Limit reads and writes of a device, each, to so many per second; 0 is not a limit."""
        for way in ("read", "write"):
            name = f"blkio.throttle.{way}_{unit}_device"
            (self.path / name).write_text(f"{device} {per_s}")


class Throttled:
    """A new control group whose processes get 1 byte/s (or request/s) of a device, while it lasts.

    Its threads can end only once it is lifted.
    """

    def __init__(self, device: str, unit: str = "bps") -> None:
        self._device = device
        self._unit = unit
        self._group = Group()

    def __enter__(self) -> Group:
        self._group.__enter__()
        self._group.limit(self._device, 1, self._unit)
        return self._group

    def __exit__(self, *exception: object) -> None:
        self.lift()
        self._group.__exit__(*exception)

    def lift(self) -> None:
        self._group.limit(self._device, 0, self._unit)


class CpuGroup:
    """A new control group of processor time that a process is in, while it lasts.

    Source: Documentation/scheduler/sched-bwc.rst.
    """

    def __init__(self, pid: int) -> None:
        self.path = cpu() / f"seatrial-test-{os.getpid()}"
        self._pid = pid

    def __enter__(self) -> CpuGroup:
        self.path.mkdir()
        (self.path / "cgroup.procs").write_text(str(self._pid))
        return self

    def __exit__(self, *_exception: object) -> None:
        self.set_quota_us(-1)
        remove_group(self.path)

    def set_quota_us(self, quota_us: int) -> None:
        (self.path / "cpu.cfs_quota_us").write_text(str(quota_us))

    def stop(self, length_s: float, quota_us: int, period_us: int) -> Injected:
        """Give it so much processor time in each period, for a time."""
        (self.path / "cpu.cfs_period_us").write_text(str(period_us))
        began = moment(self.set_quota_us, quota_us)
        time.sleep(length_s)
        return Injected(began, moment(self.set_quota_us, -1))


def throttle(pid: int, device: str, length_s: float, *, unit: str = "bps") -> Injected:
    """Throttle the requests of a process to a device, then let it go on."""
    throttled = Throttled(device, unit)
    with throttled as group:
        began = moment((group.path / "cgroup.procs").write_text, str(pid))
        time.sleep(length_s)
        return Injected(began, moment(lift, throttled, device))


def lift(throttled: Throttled, device: str) -> None:
    """End a throttle; a thread of the kernel's lets the requests go, as soon as it runs."""
    held = ended_count(device)
    give_up_s = time.monotonic() + 5
    throttled.lift()
    while ended_count(device) == held:
        if time.monotonic() > give_up_s:
            raise NothingHeldError(f"no request of {device} went on as its throttle was lifted")
        time.sleep(0.0005)


class NothingHeldError(Exception):
    """A throttle held no request: who sent them had ended before, or it was never lifted."""


def ended_count(device: str) -> int:
    """Reads and writes that have ended (Documentation/admin-guide/iostats.rst)."""
    fields = Path(f"/sys/dev/block/{device}/stat").read_text().split()
    return int(fields[0]) + int(fields[4])


def blkio() -> Path:
    """Where the control groups of block devices are."""
    point = hierarchy("blkio")
    if not (point / "blkio.throttle.read_bps_device").exists():
        pytest.skip("needs a kernel with CONFIG_BLK_DEV_THROTTLING")
    return point


def cpu() -> Path:
    """Where the control groups of processor time are."""
    point = hierarchy("cpu")
    if not (point / "cgroup.procs").exists() or not (point / "cpu.shares").exists():
        pytest.skip("needs a kernel with CONFIG_CFS_BANDWIDTH")
    return point


def hierarchy(controller: str) -> Path:
    """Where the control groups of version 1 of a controller are mounted."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, kind, options, *_ = line.split()
        if kind == "cgroup" and controller in options.split(","):
            return Path(point)
    pytest.skip(f"needs the control groups of version 1 with {controller}")


def remove_group(group: Path) -> None:
    """Move all out; a process that ended just now leaves its group a moment later."""
    give_up_s = time.monotonic() + 5
    while True:
        for pid in (group / "cgroup.procs").read_text().split():
            (group.parent / "cgroup.procs").write_text(pid)
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > give_up_s:
                raise
            time.sleep(0.01)
        else:
            return


class Frozen:
    """A file system frozen as fsfreeze(8) does, while it lasts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> Frozen:
        self._descriptor = os.open(self._folder, os.O_RDONLY)
        self.began = moment(fcntl.ioctl, self._descriptor, FIFREEZE, 0)
        return self

    def __exit__(self, *_exception: object) -> None:
        self.ended = moment(fcntl.ioctl, self._descriptor, FITHAW, 0)
        os.close(self._descriptor)


def freeze(folder: Path, length_s: float) -> Injected:
    """Freeze a file system, then thaw it."""
    with Frozen(folder) as frozen:
        time.sleep(length_s)
    return Injected(frozen.began, frozen.ended)


def thaw(folder: Path) -> None:
    """Thaw a file system if it is frozen."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, FITHAW, 0)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


def stop(pid: int, length_s: float) -> Injected:
    """Stop a process by SIGSTOP, then let it go on."""
    began = moment(os.kill, pid, signal.SIGSTOP)
    time.sleep(length_s)
    return Injected(began, moment(os.kill, pid, signal.SIGCONT))


SPIN = f"""
import os, sys, time
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param({PRIORITY}))
os.sched_setaffinity(0, {{int(sys.argv[1])}})
print("ready", flush=True)
for moment in iter(sys.stdin.readline, ""):
    began_s = now_s = time.time()
    while now_s < began_s + float(moment):
        now_s = time.time()
    print(began_s, now_s, flush=True)
"""


class Thief:
    """A process that takes a processor from ordinary threads on command.

    It is started before what it steals from, for on a busy machine an interpreter takes seconds to
    start.
    """

    def __init__(self, processor: int) -> None:
        self._processor = processor

    def __enter__(self) -> Thief:
        spin = [sys.executable, "-c", SPIN, str(self._processor)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(spin, stdin=pipe, stdout=pipe, text=True)
        assert self._process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_exception: object) -> None:
        self._process.kill()
        self._process.communicate()

    def steal(self, threads: list[int], length_s: float) -> Injected:
        """Pin threads to the processor and take it from them.

        The kernel leaves ordinary threads 5 % of each second whatever happens
        (Documentation/scheduler/sched-deadline.rst, the fair server; sched-rt-group.rst), so
        ``length_s`` must stay well below a second.
        """
        if not threads:
            raise ProcessLookupError(errno.ESRCH, "there is nothing to steal a processor from")
        for thread in threads:
            os.sched_setaffinity(thread, {self._processor})
        self._process.stdin.write(f"{length_s}\n")
        self._process.stdin.flush()
        began_s, ended_s = map(float, self._process.stdout.readline().split())
        return Injected(Moment(began_s, began_s), Moment(ended_s, ended_s))
