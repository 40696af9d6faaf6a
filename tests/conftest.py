"""What holds for every test.

What needs root is skipped without it; none fails for being slow.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
from pathlib import Path

import pytest
from hypothesis import settings

# Tests set the width that they need; that of the terminal that they run in must not matter.
os.environ.pop("COLUMNS", None)

settings.register_profile("seatrial", deadline=None)
settings.load_profile("seatrial")


def interrupt(*_signal: object) -> None:
    pytest_keyboard_interrupt()
    raise KeyboardInterrupt


def pytest_keyboard_interrupt() -> None:
    # It may come once more, from the run that was interrupted as well: the clean-up goes on.
    signal.signal(signal.SIGTERM, lambda *_signal: None)


# A limit of time ends all processes of a run, workers too. A test that is interrupted still removes
# what it made: loop devices, mounts, servers, labs.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGTERM, interrupt)


def root_reason() -> str:
    """Why tests on real devices cannot run here; empty when they can."""
    if os.geteuid() != 0:
        return "needs root for loop devices and mounts"
    if not Path("/dev/loop-control").exists():
        return "needs the kernel's loop devices"
    missing = [name for name in ("losetup", "mount", "mkfs.ext4") if shutil.which(name) is None]
    return f"needs the commands {', '.join(missing)}" if missing else ""


def pytest_collection_modifyitems(items):
    reason = root_reason()
    for item in items:
        if reason and item.get_closest_marker("root"):
            item.add_marker(pytest.mark.skip(reason=reason))
