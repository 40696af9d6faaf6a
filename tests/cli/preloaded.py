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
import fcntl
import functools
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

MESSAGE_BYTES_MAX = 1 << 20
LOADED = ("numpy", "scipy.stats", "scipy.optimize", "rich.console", "rich.progress", "psycopg")
"""What commands import when they need it."""


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
        arguments: Sequence[object],
        folder: Path,
        environment: Mapping[str, str],
        *streams: int,
        **how: object,
    ) -> ForkedCommand:
        """Start a command.

        Args:
            arguments: Its arguments.
            folder: Its working directory.
            environment: All of its environment.
            streams: Its standard streams; those that are missing are pipes.
            how: ``group``, the folder of a control group that it enters; ``start_new_session``;
                ``terminal``, to be its controlling one.
        """
        message = json.dumps(
            {
                "arguments": [*map(str, arguments)],
                "folder": str(folder),
                "environment": dict(environment),
                "how": {name: str(value or "") for name, value in how.items()},
            }
        )
        pipes = [os.pipe() for _ in range(3 - len(streams))]
        ours, theirs = socket.socketpair()
        with theirs:
            given = [*streams, *(writer for _, writer in pipes), theirs.fileno()]
            socket.send_fds(self._socket, [message.encode()], given)
        for _, writer in pipes:
            os.close(writer)
        return ForkedCommand(arguments, ours, [reader for reader, _ in pipes])

    def end(self) -> None:
        """End the process: its standard input ends."""
        self._socket.close()
        self._process.wait(10)


class ForkedCommand:
    """A command that was forked, with the methods of a Popen.

    Attributes:
        args: Its arguments.
        pid: Its process id.
        returncode: Its exit code, or the negated signal that ended it; None before it was waited
            for.
        stdout: What it prints, where that is a pipe.
        stderr: Likewise.
    """

    def __init__(self, args: Sequence[object], reply: socket.socket, pipes: Sequence[int]) -> None:
        self.args = args
        self.returncode: int | None = None
        self.stdout, self.stderr = map(os.fdopen, pipes) if pipes else (None, None)
        self._reply = reply
        self._lines = reply.makefile()
        self.pid = int(self._lines.readline())
        self._texts: dict[str, str] = {}
        self._readers: list[threading.Thread] = []

    def poll(self) -> int | None:
        """Return its exit code if it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; return its exit code."""
        if self.returncode is None:
            if not select.select([self._reply], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = int(self._lines.readline())
            self._lines.close()
            self._reply.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read all that it prints, and wait for its end."""
        if not self._readers:
            for name in ("stdout", "stderr"):
                reader = threading.Thread(target=self._read, args=[name], daemon=True)
                reader.start()
                self._readers.append(reader)
        until_s = None if timeout is None else time.monotonic() + timeout
        for reader in self._readers:
            reader.join(None if until_s is None else max(0, until_s - time.monotonic()))
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(None if until_s is None else max(0, until_s - time.monotonic()))
        return self._texts["stdout"], self._texts["stderr"]

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """End it."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def _read(self, name: str) -> None:
        with getattr(self, name) as pipe:
            self._texts[name] = pipe.read()


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
        _, status = os.waitpid(command, 0)
        with contextlib.suppress(BrokenPipeError):
            os.write(reply, f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os._exit(0)
    for number, each in enumerate(streams[:3]):
        os.dup2(each, number)
        os.close(each)
    request = json.loads(message)
    how = request["how"]
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if how.get("start_new_session") or how.get("terminal"):
        os.setsid()
    if how.get("terminal"):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if group := how.get("group"):
        Path(group, "cgroup.procs").write_text(str(os.getpid()))
    Path("/proc/self/comm").write_text("seatrial")
    # From here on it is what was started, as after exec.
    os.write(reply, f"{os.getpid()}\n".encode())
    os.close(reply)
    sys.argv = ["seatrial", *request["arguments"]]


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
