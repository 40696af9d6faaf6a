"""Whose requests are those of a run: asked of real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from seatrial.trials.watch.measure.clients import (
    ENDED,
    ENGINE,
    HELPER,
    KERNEL,
    OTHER,
    SERVER,
    Clients,
)

KTHREADD = 2
STARTS_ANOTHER = (
    "import subprocess; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
)


def test_every_process_is_of_somebody(tmp_path):
    folder = tmp_path / ".seatrial-20261121-101010-abcd" / "data"
    folder.mkdir(parents=True)
    server = subprocess.Popen(["sleep", "60"], cwd=folder, start_new_session=True)
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTS_ANOTHER], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout
    grandchild = int(parent.stdout.readline())
    gone = subprocess.Popen(["true"])
    gone.wait()
    give_up_s = time.monotonic() + 5
    while Path(f"/proc/{server.pid}/cwd").readlink() != folder:  # it is not exec'd yet
        assert time.monotonic() < give_up_s
    try:
        clients = Clients(parent.pid)
        assert clients.client(parent.pid, "seatrial") == ENGINE
        assert clients.client(grandchild, "pgbench") == HELPER
        assert clients.client(server.pid, "postgres") == SERVER
        assert clients.client(KTHREADD, "kworker") == KERNEL
        assert clients.client(os.getpid(), "watch") == OTHER
        assert clients.client(1, "init") == OTHER
        assert clients.client(gone.pid, "true") == ENDED
        assert clients.client(0, "") == ""
    finally:
        for each in (server, parent):
            each.kill()
            each.wait()
        os.kill(grandchild, 9)


def test_a_process_that_has_ended_stays_what_it_was():
    child = subprocess.Popen(["sleep", "60"])
    clients = Clients(os.getppid())
    known = clients.client(child.pid, "sleep")
    child.kill()
    child.wait()
    assert clients.client(child.pid, "sleep") == known != ENDED
