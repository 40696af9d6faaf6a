"""Detects lost hosts by idle connections with TCP keepalive.

The kernels exchange a probe of some 60 bytes each second, without a thread of ours, so that a busy
or stopped process does not count as a lost host.

Source: tcp(7), ``TCP_KEEPIDLE``, ``TCP_KEEPINTVL`` and ``TCP_KEEPCNT``; RFC 1122, 4.2.3.6.
"""

from __future__ import annotations

import select
import socket
from typing import Final

from seatrial.fleet.link import TIMEOUT_S

PERIOD_S: Final = 1
UNANSWERED_MAX: Final = 3
LIMIT_S: Final = float(PERIOD_S * (1 + UNANSWERED_MAX))
"""Time after the last answer until a host counts as silent."""


class Heartbeats:
    """Watches hosts with a ``LinkServer``."""

    def __init__(self) -> None:
        self._connections: dict[str, socket.socket] = {}
        self._foreign_endpoints: dict[str, tuple[str, int]] = {}
        self._lost: dict[str, str] = {}
        self._poll = select.poll()

    def watch(self, name: str, address: str, port: int, *, is_ours: bool = True) -> None:
        """Start watching a host; one that does not answer is lost at once.

        Args:
            name: Name of the host.
            address: Its address.
            port: Port of its ``LinkServer``, or of a server that is not ours.
            is_ours: False for another server, which may close an idle connection: it has died only
                if it accepts no new one.
        """
        if not is_ours:
            self._foreign_endpoints[name] = (address, port)
        try:
            connection = socket.create_connection((address, port), timeout=TIMEOUT_S)
        except OSError:
            self._lost[name] = "silent"
            return
        for option, value in (
            (socket.TCP_KEEPIDLE, PERIOD_S),
            (socket.TCP_KEEPINTVL, PERIOD_S),
            (socket.TCP_KEEPCNT, UNANSWERED_MAX),
        ):
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setblocking(False)
        self._connections[name] = connection
        self._poll.register(connection, select.POLLIN)

    def lost(self) -> dict[str, str]:
        """Return the lost hosts, each with ``died`` or ``silent``."""
        ready = {number for number, _ in self._poll.poll(0)}
        for name, connection in list(self._connections.items()):
            if connection.fileno() in ready and (state := _loss(connection)):
                self._poll.unregister(connection)
                self._connections.pop(name).close()
                if state == "died" and name in self._foreign_endpoints:
                    self.watch(name, *self._foreign_endpoints[name], is_ours=False)
                else:
                    self._lost[name] = state
        return dict(self._lost)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()


def _loss(connection: socket.socket) -> str:
    """Return ``died`` or ``silent``; empty while the connection is alive."""
    try:
        received = connection.recv(1)
    except BlockingIOError:
        return ""
    except ConnectionResetError:
        return "died"
    except OSError:
        return "silent"
    return "" if received else "died"
