"""ZFS for tests: the kernel's where that answers, else a daemon of zfs-fuse while it is needed."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from seatrial.trials.layouts.build.backends.zfs import BACKEND

PATIENCE_S = 10


@contextmanager
def answering_zfs() -> Iterator[None]:
    """Have `zpool` answered; skips the test where nothing can."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if shutil.which("zpool") is None:
        pytest.skip("needs zpool: apt-get install zfs-fuse")
    if not BACKEND.obstacle():
        yield
        return
    if shutil.which("zfs-fuse") is None:
        pytest.skip(BACKEND.obstacle())
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    daemon = subprocess.Popen(
        ["zfs-fuse", "--no-daemon", "--no-kstat-mount", "--max-arc-size", "32"],
        **quiet,
        stderr=subprocess.DEVNULL,
    )
    try:
        give_up_s = time.monotonic() + PATIENCE_S
        while BACKEND.obstacle() and time.monotonic() < give_up_s and daemon.poll() is None:
            time.sleep(0.1)
        if BACKEND.obstacle():
            pytest.skip(BACKEND.obstacle())
        yield
    finally:
        daemon.terminate()
        try:
            daemon.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
