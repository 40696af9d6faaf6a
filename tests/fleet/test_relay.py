"""A relay delays frames and loses them as it should, and leaves nothing behind."""

from __future__ import annotations

import math
import os
import secrets
import signal
import statistics
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from fleet.shared_lab import run
from seatrial.fleet.relay import (
    TUN,
    Impairment,
    RelayRequest,
    echo_round_trips_ns,
    measure_cost,
    read_statistics,
    start_relay,
)
from seatrial.machine.undo_journal import UndoJournal

pytestmark = [pytest.mark.root]

SIGMAS = 5.0


@pytest.fixture(autouse=True)
def _needs():
    if os.geteuid() != 0 or not Path(TUN).exists():
        pytest.skip(f"needs root and {TUN}")
    made = subprocess.run(["ip", "netns", "add", "seatrial-relay"], check=False)
    if made.returncode:
        pytest.skip("needs network namespaces")
    run("ip", "netns", "delete", "seatrial-relay")


@contextmanager
def linked(folder: Path, **impairment):
    """A namespace behind a relay: its address, what the relay does, and where it counts."""
    name = f"sr{secrets.token_hex(3)}"
    wished = Impairment(**impairment)
    request = RelayRequest(
        pairs=[(f"{name}a", f"{name}b")], impairment=wished, statistics=str(folder / "counts")
    )
    net = f"10.{secrets.randbelow(50) + 201}.{secrets.randbelow(250) + 1}"
    with UndoJournal(f"relay-{name}", folder / "state") as journal:
        journal.record("fleet_namespace", name=name)
        run("ip", "netns", "add", name)
        relay = start_relay(
            request, journal, {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        )
        run("ip", "link", "set", f"{name}b", "netns", name, "name", "eth0")
        run("ip", "address", "add", f"{net}.1/24", "dev", f"{name}a")
        run("ip", "link", "set", f"{name}a", "up")
        run("ip", "-n", name, "address", "add", f"{net}.2/24", "dev", "eth0")
        run("ip", "-n", name, "link", "set", "eth0", "up")
        yield f"{net}.2", wished, folder / "counts"
        journal.undo_all()
    relay.wait()
    assert not Path("/sys/class/net", f"{name}a").exists()
    assert not Path("/run/netns", name).exists()


def test_a_round_trip_grows_by_twice_the_delay(tmp_path):
    delay_ms = 40.0
    with linked(tmp_path, delay_ms=delay_ms) as (address, wished, counts):
        echo_round_trips_ns(address, 1)  # finds the hardware address
        cost = measure_cost(address, wished, counts)
        trips_ms = [each / 1e6 for each in echo_round_trips_ns(address, 20)]
    assert len(trips_ms) == 20
    assert min(trips_ms) >= 2 * delay_ms
    stated_ms = 2 * (delay_ms + cost.extra_ns_max / 1e6)
    assert statistics.median(trips_ms) <= stated_ms
    assert cost.bytes_per_s_max > 1e6
    assert f"adds {cost.extra_ns_p50 / 1e6:.2f} ms each way" in cost.words


def test_as_many_frames_are_lost_as_should(tmp_path):
    # Slow enough that no queue of the kernel is full while other processes have the processors.
    count, loss = 600, 0.2
    with linked(tmp_path, loss_percent=100 * loss, seed=7) as (address, _, counts):
        found = any(echo_round_trips_ns(address, 1) for _ in range(20))
        assert found, "the hardware address was not found"
        answered = len(echo_round_trips_ns(address, count, apart_s=0.003))
        seen = read_statistics(counts)
    both_ways = (1 - loss) ** 2
    slack = SIGMAS * math.sqrt(count * both_ways * (1 - both_ways))
    assert abs(answered - count * both_ways) < slack
    total = seen.frames + seen.lost
    assert abs(seen.lost - total * loss) < SIGMAS * math.sqrt(total * loss * (1 - loss))


def test_nothing_is_left_after_a_kill(tmp_path):
    name = f"sr{secrets.token_hex(3)}"
    program = f"""
import os, signal, sys
from pathlib import Path
from seatrial.fleet.relay import Impairment, RelayRequest, start_relay
from seatrial.machine.undo_journal import UndoJournal
request = RelayRequest(
    pairs=[("{name}a", "{name}b")], impairment=Impairment(delay_ms=1.0), statistics="{tmp_path}/c"
)
with UndoJournal("relay-killed", Path("{tmp_path}/seatrial")) as journal:
    start_relay(request, journal, os.environ)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "SEATRIAL_STATE_DIR": f"{tmp_path}/seatrial",
    }
    done = subprocess.run([sys.executable, "-c", program], check=False, env=environment)
    assert done.returncode == -signal.SIGKILL
    assert Path("/sys/class/net", f"{name}a").exists()
    cleaned = subprocess.run(
        [sys.executable, "-m", "seatrial", "clean"],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert not Path("/sys/class/net", f"{name}a").exists(), cleaned.stdout
