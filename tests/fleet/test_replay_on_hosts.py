"""A trace of TPC-B replayed by four hosts to one server, as by one host; with one that dies."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from postgres.programs import installed_programs
from seatrial.errors import EXIT_PARTIAL
from seatrial.results.fleet import FleetRecord
from seatrial.results.replay import LOST_HOST
from seatrial.results.store import ResultsFile
from trials.replay.loads import read
from trials.replay.logging_server import MODES, logging_server
from trials.replay.targets import Target, record_in, replay, target_server

pytestmark = [pytest.mark.ray, pytest.mark.root, pytest.mark.slow]

CLIENTS, TRANSACTIONS = 6, 200
COMMITS = CLIENTS * TRANSACTIONS
PER_S = 200
"""So the capture takes 6 s, and its replay at half of the speed 12 s."""
SPEED = {"kill": "1", "cut_link": "0.5"}
"""A silent host is noticed after 4 s."""


TPCB = (
    "UPDATE pgbench_accounts",
    "SELECT abalance FROM pgbench_accounts WHERE aid = $1",
    "UPDATE pgbench_tellers",
    "UPDATE pgbench_branches",
    "INSERT INTO pgbench_history",
    "END",
)
BEGUN_BY_US = 1
"""The content of the tables is read in one transaction, after the replay."""
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'tpcb_played'"
CALLS = """
    SELECT query, calls FROM pg_stat_statements
    JOIN pg_database ON pg_database.oid = dbid WHERE datname = 'tpcb_played'
"""


@dataclass(frozen=True)
class Load:
    """A trace, and a server with the data that it begins with, in the database ``tpcb``."""

    trace: Path
    target: Target


@pytest.fixture(scope="module")
def load() -> Iterator[Load]:
    # Each host of a lab has a /tmp of its own: sockets and the trace lie elsewhere.
    folder = Path(tempfile.mkdtemp(prefix="seatrial-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        (folder / "target").mkdir()
        with logging_server(folder, installed_programs()) as source:
            source.pgbench("--initialize", "--quiet", "--scale=1")
            with source.logging("tpcb", **MODES["log_statement"]):
                words = (f"--client={CLIENTS}", f"--transactions={TRANSACTIONS}", f"--rate={PER_S}")
                assert source.pgbench("--no-vacuum", *words) == COMMITS
            trace = read(source.log("tpcb", "csv"), folder / "tpcb.trace").path
        library = {"shared_preload_libraries": "pg_stat_statements"}
        with target_server(folder / "target", installed_programs(), **library) as target:
            target.run("postgres", "CREATE EXTENSION pg_stat_statements")
            target.make("tpcb")
            target.pgbench("tpcb", "--initialize", "--quiet", "--scale=1")
            yield Load(trace, target)
    finally:
        shutil.rmtree(folder)


def fleet_in(folder: Path) -> FleetRecord:
    """What the newest run in a folder's results file kept of the hosts."""
    with ResultsFile.open(folder / "results.seatrial", read_only=True) as store:
        (sample,) = store.samples(store.runs()[-1].id)
    assert sample.fleet is not None
    return sample.fleet


def calls(load: Load) -> dict[str, int]:
    """How often the server says that each statement of a transaction was executed."""
    rows = load.target.run("postgres", CALLS)
    own = {text.split(" SET ")[0].split(" (")[0]: int(count) for text, count in rows}
    return {each: own[each] for each in (*TPCB, "BEGIN")}


def played(load: Load, folder: Path, *options: str):
    """How the command ended, the record of its replay, and the sums that it left."""
    name = load.target.make("tpcb_played", template="tpcb")
    load.target.run("postgres", "SELECT pg_stat_statements_reset()")
    words = ("--allow-writes", name, "--ids", "off", *options)
    done = replay(load.trace, load.target.url(name), *words, folder=folder)
    return done, record_in(folder), load.target.sums(name)


def test_four_hosts_execute_what_one_does(lab, load, tmp_path):
    found = []
    for name, options in (("one", ()), ("four", ("--ray", lab.address))):
        (tmp_path / name).mkdir()
        done, record, sums = played(load, tmp_path / name, *options)
        assert done.code == 0, done
        accounts, branches, tellers, history, transactions = sums
        assert accounts == branches == tellers == history
        assert transactions == record.commits.committed == COMMITS
        assert calls(load) == dict.fromkeys(TPCB, COMMITS) | {"BEGIN": COMMITS + BEGUN_BY_US}
        found.append((record.total.captured, record.total.ok, record.total.skipped, sums))
    assert found[0] == found[1]


def strike(load: Load, act) -> None:
    """Do something 2 s after all sessions of the replay began."""
    give_up_at_s = time.monotonic() + 90
    while load.target.run("postgres", SESSIONS)[0][0] < CLIENTS:
        assert time.monotonic() < give_up_at_s
        time.sleep(0.1)
    time.sleep(2.0)
    act()


@pytest.mark.parametrize(("fault", "how"), [("kill", "died"), ("cut_link", "silent")])
def test_a_lost_host_is_named_first_and_its_statements_are_not_guessed(
    fault, how, lab, load, tmp_path
):
    striking = threading.Thread(target=strike, args=(load, lambda: getattr(lab, fault)(2)))
    striking.start()
    try:
        done, record, sums = played(load, tmp_path, "--ray", lab.address, "--speed", SPEED[fault])
    finally:
        striking.join()
        lab.restart(2)
    assert done.code == EXIT_PARTIAL, done
    assert "lost host2: " in done.out.splitlines()[0]
    (lost_host,) = fleet_in(tmp_path).lost
    assert (lost_host.name, lost_host.how) == ("host2", how)
    total = record.total
    lost = total.skipped[LOST_HOST]
    assert total.captured == total.ok + total.failed + total.skipped_count + total.not_reached
    assert 0 < lost < total.captured / 2
    accounts, branches, tellers, history, transactions = sums
    assert accounts == branches == tellers == history
    # A silent host reaches the server by its socket here, and plays on: what it did is not known.
    assert record.commits.committed < COMMITS
    assert record.commits.committed <= transactions <= COMMITS - (fault == "kill")
