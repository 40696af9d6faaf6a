"""Whether hosts are still there: idle connections that their kernels keep alive.

Nothing of ours runs for it, here or there: the kernel sends a probe of some 60 bytes each second,
and the other kernel answers. So a busy or stopped process is not taken for a lost host.

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
"""So long after its last answer a host is silent."""


class Heartbeats:
    """Watches hosts with a ``LinkServer``."""

    def __init__(self) -> None:
        self._connections: dict[str, socket.socket] = {}
        self._places: dict[str, tuple[str, int]] = {}
        self._found: dict[str, str] = {}
        self._poll = select.poll()

    def watch(self, name: str, address: str, port: int, *, is_ours: bool = True) -> None:
        """Begin to watch a host; one that does not answer is lost at once.

        Args:
            name: Of the host.
            address: Its address.
            port: Of its ``LinkServer``, or of a server that is not ours.
            is_ours: Whether it is. Another server may close a connection on which nothing is said:
                it has died only if it accepts none any more.
        """
        if not is_ours:
            self._places[name] = (address, port)
        try:
            connection = socket.create_connection((address, port), timeout=TIMEOUT_S)
        except OSError:
            self._found[name] = "silent"
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
        """Return how each host was lost so far: ``died`` or ``silent``."""
        ready = {number for number, _ in self._poll.poll(0)}
        for name, connection in list(self._connections.items()):
            if connection.fileno() in ready and (how := _how(connection)):
                self._poll.unregister(connection)
                self._connections.pop(name).close()
                if how == "died" and name in self._places:
                    self.watch(name, *self._places[name], is_ours=False)
                else:
                    self._found[name] = how
        return dict(self._found)

    def close(self) -> None:
        """Watch nobody any more."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()


def _how(connection: socket.socket) -> str:
    """Return how the other side was lost; empty where it was not."""
    try:
        received = connection.recv(1)
    except BlockingIOError:
        return ""
    except ConnectionResetError:
        return "died"
    except OSError:
        return "silent"
    return "" if received else "died"
