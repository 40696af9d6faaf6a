"""A process that has loaded Seatrial and forks for each command: a start costs no imports.

Starting an interpreter and importing takes 0.3 to 0.6 s of processor time, a thousand times in all
tests. A fork of a process that has done so is as separate from the test as a process of its own:
its own descriptors, folder, environment, signals and exit code.

Run as a program it is that process. Its standard input is a socket: each message holds a command as
JSON and, with SCM_RIGHTS, its standard streams and a socket for the process id and the exit code.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

MESSAGE_BYTES_MAX = 1 << 20
LOADED = ("numpy", "scipy.stats", "scipy.optimize", "rich.console", "rich.progress", "psycopg")
"""What commands import when they need it."""
GROUP = "SEATRIAL_TEST_GROUP"
"""The variable of a command that names the control group to enter; the command does not see it."""


class Preloaded:
    """The process that forks, started once and ended with the tests."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        for each in (ours, theirs):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MESSAGE_BYTES_MAX)
        self._process = subprocess.Popen([sys.executable, __file__], stdin=theirs)
        theirs.close()
        atexit.register(self.end)

    def start(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        streams: Sequence[int],
    ) -> socket.socket:
        """Start a command; the socket gives its process id, then its exit code, a line each."""
        request = json.dumps([*map(str, (folder, *arguments))]), json.dumps(dict(environment))
        ours, theirs = socket.socketpair()
        with theirs:
            message = "\0".join(request).encode()
            socket.send_fds(self._socket, [message], [*streams, theirs.fileno()])
        return ours

    def end(self) -> None:
        """End the process: its standard input ends."""
        self._socket.close()
        self._process.wait(10)


@functools.cache
def preloaded() -> Preloaded:
    """The one of this session."""
    return Preloaded()


def serve() -> None:
    """Fork for each message; returns in the process that is to be the command."""
    requests = socket.socket(fileno=os.dup(0))
    while True:
        message, streams, *_ = socket.recv_fds(requests, MESSAGE_BYTES_MAX, 4)
        if not message:
            os._exit(0)
        if os.fork():
            for each in streams:
                os.close(each)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            continue
        requests.close()
        return become(message, streams)


def become(message: bytes, streams: list[int]) -> None:
    """Wait for a child of this process, which is the command, or return as that."""
    reply = streams[3]
    command = os.fork()
    if command:
        for each in streams[:3]:
            os.close(each)
        os.write(reply, f"{command}\n".encode())
        _, status = os.waitpid(command, 0)
        with contextlib.suppress(BrokenPipeError):
            os.write(reply, f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os._exit(0)
    os.close(reply)
    for number, each in enumerate(streams[:3]):
        os.dup2(each, number)
        os.close(each)
    arguments, environment = map(json.loads, message.decode().split("\0"))
    os.chdir(arguments[0])
    os.environ.clear()
    os.environ.update(environment)
    if group := os.environ.pop(GROUP, ""):
        Path(group, "cgroup.procs").write_text(str(os.getpid()))
    sys.argv = ["seatrial", *arguments[1:]]


def load() -> None:
    """Import what commands import, and compile the templates of pages: 0.14 s for each report."""
    import seatrial.cli
    from seatrial.report import markup

    for name in LOADED:
        importlib.import_module(name)
    for module in pkgutil.walk_packages(seatrial.__path__, "seatrial."):
        importlib.import_module(module.name)
    for template in markup.PRODUCT.rglob("*.html"):
        markup.template_at(str(template.relative_to(markup.PRODUCT)))


def leave(code: int) -> NoReturn:
    """End as the interpreter does, but leave alone the objects that this process never touched.

    To free each of them takes 0.4 s: a fork shares their memory until something is written to it.
    Where standard output cannot be flushed, the interpreter itself has the last word.
    """
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    load()
    gc.collect()
    gc.freeze()
    serve()
    from seatrial.cli.main import main

    code: object = None
    try:
        main()
    except SystemExit as end:
        code = end.code
        if not isinstance(code, int):
            raise
    # What the command's frames held ends with them, as when the interpreter ends.
    gc.collect()
    if isinstance(code, int):
        with contextlib.suppress(OSError):
            leave(code)
    sys.exit(code)
