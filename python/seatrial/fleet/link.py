"""The network between two hosts: round trips, clocks and throughput, by a plain connection.

The method of a clock's offset is Cristian's (Probabilistic clock synchronization, 1989): of many
round trips the shortest counts, the remote reading is assumed at its middle, and half of it bounds
the error.
"""

from __future__ import annotations

import socket
import statistics
import struct
import threading
import time
from contextlib import closing, suppress
from typing import Final

from seatrial.results.fleet import ClockOffset, Throughput

ROUND_TRIPS: Final = 100
SEND_S: Final = 0.5
"""Duration of a throughput measurement."""
CHUNK_BYTES: Final = 1 << 20
TIMEOUT_S: Final = 5.0

_PING: Final = b"P"
_SINK: Final = b"S"
_READING: Final = struct.Struct("!qq")


class LinkServer:
    """Answers round trips and discards received data, on a free port."""

    def __init__(self, address: str) -> None:
        self._listener = socket.create_server((address, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="link", daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=_serve, args=(connection,), name="link", daemon=True).start()


def _serve(connection: socket.socket) -> None:
    with closing(connection), suppress(OSError):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        kind = connection.recv(1)
        if kind == _SINK:
            received_bytes = 0
            part = bytearray(CHUNK_BYTES)
            while count := connection.recv_into(part):
                received_bytes += count
            connection.sendall(_READING.pack(received_bytes, 0))
            return
        while kind == _PING:
            connection.sendall(_READING.pack(time.monotonic_ns(), time.time_ns()))
            kind = connection.recv(1)


def clock_offset(address: str, port: int, round_trips: int = ROUND_TRIPS) -> ClockOffset:
    """Return the clock offset of a host with a ``LinkServer``.

    Raises:
        OSError: when it does not answer within 5 s.
    """
    trips: list[tuple[int, int, int, int]] = []
    with socket.create_connection((address, port), timeout=TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(round_trips):
            before_ns, wall_ns = time.monotonic_ns(), time.time_ns()
            connection.sendall(_PING)
            remote_ns, remote_wall_ns = _READING.unpack(_receive(connection, _READING.size))
            trip_ns = time.monotonic_ns() - before_ns
            middle_ns = before_ns + trip_ns // 2
            trips.append(
                (trip_ns, remote_ns - middle_ns, remote_wall_ns - wall_ns - trip_ns // 2, middle_ns)
            )
    trip_ns, offset_ns, wall_offset_ns, read_at_ns = min(trips)
    return ClockOffset(
        offset_ns=offset_ns,
        bound_ns=trip_ns // 2,
        wall_offset_ns=wall_offset_ns,
        round_trip_ns_p50=int(statistics.median(each[0] for each in trips)),
        round_trip_ns_min=trip_ns,
        read_at_ns=read_at_ns,
    )


def throughput(address: str, port: int, send_s: float = SEND_S) -> Throughput:
    """Return the throughput of a connection to a host with a ``LinkServer``.

    Raises:
        OSError: when it does not answer, or the connection breaks.
    """
    part = bytes(CHUNK_BYTES)
    with socket.create_connection((address, port), timeout=TIMEOUT_S) as connection:
        connection.sendall(_SINK)
        began_ns = time.monotonic_ns()
        while time.monotonic_ns() - began_ns < send_s * 1e9:
            connection.sendall(part)
        connection.shutdown(socket.SHUT_WR)
        received_bytes, _ = _READING.unpack(_receive(connection, _READING.size))
        took_ns = time.monotonic_ns() - began_ns
    return Throughput(bytes_per_s=received_bytes / took_ns * 1e9, sent_bytes=received_bytes)


def _receive(connection: socket.socket, size_bytes: int) -> bytes:
    received = b""
    while len(received) < size_bytes:
        part = connection.recv(size_bytes - len(received))
        if not part:
            raise ConnectionError("the other side closed the connection")
        received += part
    return received
