"""Relays that keep every byte: one before and one behind a proxy show whether it alters any."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

READ_BYTES = 1 << 16
WAIT_S = 20.0


@dataclass(frozen=True)
class Passed:
    """What passed over one connection, each way."""

    up: bytes
    down: bytes


@dataclass
class Relay:
    """Passes connections on and keeps what was said.

    Attributes:
        target: Where to: a host with a port, or the path of a socket.
        port: Where clients come in, on the loopback interface.
    """

    target: tuple[str, int] | str
    port: int = 0
    _kept: list[tuple[bytearray, bytearray]] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)
    _sockets: list[socket.socket] = field(default_factory=list)

    @property
    def connections(self) -> list[Passed]:
        """What passed, sorted, so that two relays can be compared; call it when all has ended."""
        kept = [Passed(bytes(up), bytes(down)) for up, down in self._kept]
        return sorted(kept, key=lambda passed: (passed.up, passed.down))

    def settle(self) -> None:
        """Wait until every connection has ended."""
        for thread in self._threads:
            thread.join(WAIT_S)
            assert not thread.is_alive(), "a connection through a relay does not end"

    def serve(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                self._pass_on(client)

    def _pass_on(self, client: socket.socket) -> None:
        family: Any = socket.AF_UNIX if isinstance(self.target, str) else socket.AF_INET
        server = socket.socket(family)
        try:
            server.connect(self.target)
        except OSError:
            client.close()
            return
        kept = (bytearray(), bytearray())
        self._kept.append(kept)
        self._sockets += [client, server]
        for source, sink, place in ((client, server, 0), (server, client, 1)):
            thread = threading.Thread(target=_pump, args=(source, sink, kept[place]), daemon=True)
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        for each in self._sockets:
            each.close()


def _pump(source: socket.socket, sink: socket.socket, kept: bytearray) -> None:
    with contextlib.suppress(OSError):
        while read := source.recv(READ_BYTES):
            kept += read
            sink.sendall(read)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def relay(target: tuple[str, int] | str) -> Iterator[Relay]:
    """A relay to a target, from a free port of the loopback interface."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Relay(target, listener.getsockname()[1])
        threading.Thread(target=made.serve, args=(listener,), daemon=True).start()
        try:
            yield made
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            made.close()
