"""Delay and loss between two network devices without the kernel's netem: a relay in user space.

One process holds both ends of each link as TAP devices. It reads each frame from one end, drops it
by a seeded generator or writes it to the other end when it is due. Its devices vanish when it ends.

Source: Documentation/networking/tuntap.rst of Linux; icmp(7); RFC 792, "Echo".
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import select
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from seatrial.errors import TargetError
from seatrial.machine.undo_journal import UndoJournal
from seatrial.process_identity import start_ticks

TUN: Final = "/dev/net/tun"
TUNSETIFF: Final = 0x400454CA
TAP_WITHOUT_HEADER: Final = 0x0002 | 0x1000
FRAME_BYTES_MAX: Final = 1 << 16
QUEUE_FRAMES_MAX: Final = 10_000
"""Frames beyond this are dropped; netem's default is 1,000."""
BATCH_FRAMES: Final = 64
STATISTICS_S: Final = 0.25
READY: Final = b"ready\n"
ECHOES: Final = 20
FLOOD_S: Final = 0.5
FLOOD_BYTES: Final = 1400


class Impairment(msgspec.Struct, frozen=True, kw_only=True):
    """Delay and loss of frames, in each direction.

    Attributes:
        delay_ms: Minimum delay of a frame.
        loss_percent: Share of dropped frames.
        seed: Seed of the generator of losses.
    """

    delay_ms: float = 0.0
    loss_percent: float = 0.0
    seed: int = 0


class RelayRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of a relay process.

    Attributes:
        pairs: Names of the two ends of each link.
        impairment: Delay and loss.
        statistics: Path of its statistics file.
    """

    pairs: list[tuple[str, str]]
    impairment: Impairment
    statistics: str


class RelayStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of a relay.

    Attributes:
        frames: Written to the other end.
        carried_bytes: Their bytes.
        lost: Dropped by the generator.
        overflowed: Dropped because too many waited, or the other end was down.
    """

    frames: int = 0
    carried_bytes: int = 0
    lost: int = 0
    overflowed: int = 0


class RelayCost(msgspec.Struct, frozen=True, kw_only=True):
    """Overhead of a relay, measured through one of its links.

    Attributes:
        extra_ns_p50: One-way delay of echoes beyond the configured delay.
        extra_ns_max: The maximum.
        bytes_per_s_max: Throughput of a flood in one direction.
    """

    extra_ns_p50: int
    extra_ns_max: int
    bytes_per_s_max: float

    @property
    def words(self) -> str:
        """The overhead in words."""
        return (
            "Delay and loss come from a relay in user space: this kernel has no netem. It adds "
            f"{self.extra_ns_p50 / 1e6:.2f} ms each way (median; {self.extra_ns_max / 1e6:.1f} ms "
            f"at most of {ECHOES} echoes) and carries at most "
            f"{self.bytes_per_s_max / 1e6:.0f} MB/s."
        )


def start_relay(
    request: RelayRequest, journal: UndoJournal, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a relay, whose devices exist when this returns; recorded in the journal.

    Raises:
        TargetError: when TAP devices cannot be made here.
    """
    program = "import sys; from seatrial.fleet import relay; relay.serve(sys.argv[1])"
    process = subprocess.Popen(
        [sys.executable, "-c", program, msgspec.json.encode(request).decode()],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    journal.record("fleet_host", pid=process.pid, start_ticks=start_ticks(process.pid) or 0)
    answer = process.stdout.readline() if process.stdout else b""
    if answer != READY:
        _, error = process.communicate(timeout=10.0)
        lines = error.decode(errors="replace").strip().splitlines()
        raise TargetError(
            seen=f"The relay of network frames did not start: {lines[-1] if lines else 'it ended'}",
            cause=f"The kernel or a container forbids TAP devices ({TUN})",
            next_step="Leave out --delay and --loss, or use a kernel with netem",
        )
    return process


def serve(request_json: str) -> None:
    """Relay until killed; the program of the process.

    Raises:
        OSError: when a device cannot be made.
    """
    request = msgspec.json.decode(request_json, type=RelayRequest)
    forwarders = []
    for first, second in request.pairs:
        one, other = _tap(first), _tap(second)
        forwarders += [
            _Forwarder(one, other, request.impairment, f"{first} out"),
            _Forwarder(other, one, request.impairment, f"{first} in"),
        ]
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    _relay_frames(forwarders, Path(request.statistics))


def _tap(name: str) -> int:
    """Make a TAP device that lasts as long as its descriptor; return that."""
    number = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(number, TUNSETIFF, struct.pack("16sH22x", name.encode(), TAP_WITHOUT_HEADER))
    return number


class _Forwarder:
    """One direction of a link."""

    def __init__(self, source: int, sink: int, impairment: Impairment, name: str) -> None:
        self.source = source
        self._sink = sink
        self._delay_ns = int(impairment.delay_ms * 1e6)
        self._share = impairment.loss_percent / 100.0
        self._draw = random.Random(f"{impairment.seed} {name}")
        self._waiting: deque[tuple[int, bytes]] = deque()
        self.frames = self.carried_bytes = self.lost = self.overflowed = 0

    def receive(self, now_ns: int) -> None:
        """Read available frames; queue or drop each."""
        for _ in range(BATCH_FRAMES):
            try:
                frame = os.read(self.source, FRAME_BYTES_MAX)
            except OSError:  # nothing more, or the device is down
                return
            if self._share and self._draw.random() < self._share:
                self.lost += 1
            elif len(self._waiting) >= QUEUE_FRAMES_MAX:
                self.overflowed += 1
            else:
                self._waiting.append((now_ns + self._delay_ns, frame))

    def forward(self, now_ns: int) -> int | None:
        """Write due frames; return when the next one is due."""
        while self._waiting and self._waiting[0][0] <= now_ns:
            _, frame = self._waiting.popleft()
            try:
                os.write(self._sink, frame)
            except OSError:
                self.overflowed += 1
                continue
            self.frames += 1
            self.carried_bytes += len(frame)
        return self._waiting[0][0] if self._waiting else None


def _relay_frames(forwarders: Sequence[_Forwarder], statistics: Path) -> None:
    by_source = {forwarder.source: forwarder for forwarder in forwarders}
    written, write_at_ns = RelayStatistics(), 0
    while True:
        now_ns = time.monotonic_ns()
        due = [
            at_ns for forwarder in forwarders if (at_ns := forwarder.forward(now_ns)) is not None
        ]
        now_ns = time.monotonic_ns()
        if now_ns >= write_at_ns and (total := _total(forwarders)) != written:
            _write_statistics(statistics, total)
            written, write_at_ns = total, now_ns + int(STATISTICS_S * 1e9)
        wait_s = max(0.0, (min(due) - now_ns) / 1e9) if due else STATISTICS_S
        # Not epoll, which counts in milliseconds.
        ready, _, _ = select.select(list(by_source), [], [], wait_s)
        now_ns = time.monotonic_ns()
        for source in ready:
            by_source[source].receive(now_ns)


def _total(forwarders: Sequence[_Forwarder]) -> RelayStatistics:
    names = RelayStatistics.__struct_fields__
    return RelayStatistics(
        **{name: sum(getattr(forwarder, name) for forwarder in forwarders) for name in names}
    )


def _write_statistics(path: Path, total: RelayStatistics) -> None:
    with suppress(OSError):
        new = path.with_suffix(".new")
        new.write_text(json.dumps(msgspec.to_builtins(total)), encoding="utf-8")
        new.replace(path)


def read_statistics(path: Path) -> RelayStatistics:
    """Return the counters of a relay."""
    if not path.exists():
        return RelayStatistics()
    return msgspec.json.decode(path.read_bytes(), type=RelayStatistics)


def echo_round_trips_ns(
    address: str, count: int, *, apart_s: float = 0.0, wait_s: float = 2.0
) -> list[int]:
    """Return the round trips (ns) of the ICMP echoes that were answered.

    Args:
        address: Address of the host.
        count: Number of echoes.
        apart_s: Interval; 0 to wait for each answer.
        wait_s: Timeout of the last answer.

    Raises:
        OSError: without root or a route.
    """
    mark = os.urandom(8)
    sent_ns: list[int] = []
    found_ns: dict[int, int] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as link:
        for number in range(count):
            sent_ns.append(time.monotonic_ns())
            link.sendto(_echo(number, mark), (address, 0))
            until_s = time.monotonic() + (apart_s or wait_s)
            _receive_echoes(link, mark, sent_ns, found_ns, until_s, None if apart_s else number)
        _receive_echoes(link, mark, sent_ns, found_ns, time.monotonic() + wait_s, count - 1)
    return list(found_ns.values())


def _echo(number: int, mark: bytes) -> bytes:
    body = struct.pack("!HH", 0x5EA7, number) + mark
    total = sum(struct.unpack(f"!{len(body) // 2}H", body)) + (8 << 8)
    total = (total >> 16) + (total & 0xFFFF)
    return struct.pack("!BBH", 8, 0, ~(total + (total >> 16)) & 0xFFFF) + body


def _receive_echoes(  # noqa: PLR0917 - one loop of `echoes`
    link: socket.socket,
    mark: bytes,
    sent_ns: Sequence[int],
    found_ns: dict[int, int],
    until_s: float,
    last: int | None,
) -> None:
    """Receive answers until a time, or until that of number ``last``."""
    while (left_s := until_s - time.monotonic()) > 0 and (last is None or last not in found_ns):
        ready, _, _ = select.select([link], [], [], left_s)
        if not ready:
            return
        packet = link.recv(FRAME_BYTES_MAX)
        answer = packet[(packet[0] & 15) * 4 :]
        if answer[0] == 0 and answer[8:16] == mark:
            number = struct.unpack("!H", answer[6:8])[0]
            found_ns.setdefault(number, time.monotonic_ns() - sent_ns[number])


def measure_cost(address: str, impairment: Impairment, statistics_path: Path) -> RelayCost:
    """Measure the overhead of a relay through a link to an address.

    Raises:
        TargetError: when no echo came back.
    """
    trips_ns = echo_round_trips_ns(address, ECHOES)
    if not trips_ns:
        raise TargetError(
            seen=f"None of {ECHOES} echoes came back from {address} through the relay",
            cause=f"{impairment.loss_percent:g} % of the frames are lost each way",
            next_step="Use a smaller --loss",
        )
    extra_ns = [max(0, trip_ns // 2 - int(impairment.delay_ms * 1e6)) for trip_ns in trips_ns]
    before = read_statistics(statistics_path).carried_bytes
    began_s = time.monotonic()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flood:
        while time.monotonic() - began_s < FLOOD_S:
            with suppress(OSError):  # its queue is full, or nobody listens there
                flood.sendto(bytes(FLOOD_BYTES), (address, 9))
    took_s = time.monotonic() - began_s
    time.sleep(STATISTICS_S * 2 + impairment.delay_ms / 1e3)
    return RelayCost(
        extra_ns_p50=int(statistics.median(extra_ns)),
        extra_ns_max=max(extra_ns),
        bytes_per_s_max=(read_statistics(statistics_path).carried_bytes - before) / took_s,
    )
