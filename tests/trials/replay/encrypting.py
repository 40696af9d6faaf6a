"""A server of PostgreSQL's protocol that encrypts, and answers every query with a 1."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

HEAD_BYTES = 5


@contextlib.contextmanager
def encrypting_server(certificate: Path, key: Path) -> Iterator[int]:
    """Serve clients at a port of the loopback interface, which is yielded."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve_all, args=(listener, context), daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def _serve_all(listener: socket.socket, context: ssl.SSLContext) -> None:
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_serve, args=(client, context), daemon=True).start()


def _serve(client: socket.socket, context: ssl.SSLContext) -> None:
    with contextlib.suppress(OSError, struct.error), client:
        length, code = struct.unpack("!II", client.recv(8))
        if (length, code) != (8, 80877103):
            return
        client.sendall(b"S")
        with context.wrap_socket(client, server_side=True) as safe:
            safe.recv(10_000)
            settings = b"".join(
                _message(b"S", name + b"\0" + value + b"\0")
                for name, value in ((b"server_version", b"15.0"), (b"client_encoding", b"UTF8"))
            )
            safe.sendall(_message(b"R", bytes(4)) + settings + _message(b"Z", b"I"))
            while (head := safe.recv(HEAD_BYTES))[:1] == b"Q":
                safe.recv(struct.unpack("!I", head[1:])[0] - 4)
                safe.sendall(_answer())


def _answer() -> bytes:
    column = b"one\0" + struct.pack("!IhIhih", 0, 0, 25, -1, -1, 0)
    return (
        _message(b"T", b"\0\x01" + column)
        + _message(b"D", b"\0\x01" + struct.pack("!I", 1) + b"1")
        + _message(b"C", b"SELECT 1\0")
        + _message(b"Z", b"I")
    )


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body
