"""A capture from packets: its trace is the proxy's, and what it could not see is reported."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from cli.command import ended, seatrial, start
from seatrial import _core
from seatrial.trials.replay.analysis.verdict import judge
from seatrial.trials.replay.reading import PacketCounts, Reading
from trials.replay import talk
from trials.replay.capturing import WAIT_S, Capture, Command, capturing, server_place
from trials.replay.encrypting import encrypting_server
from trials.replay.targets import Target, play
from trials.replay.wire import relay

CLIENTS = 4
TRANSACTIONS = 60
PER_TRANSACTION = 7
FLOOD_BYTES = 8_000_000
FLOODS = 20
SO_RCVBUFFORCE = 33


def _may_see_packets() -> bool:
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0).close()
    except OSError:
        return False
    return True


packets_seen = pytest.mark.skipif(
    not _may_see_packets(), reason="needs root or CAP_NET_RAW, and packet sockets in the kernel"
)


class Packets:
    """A capture from the packets of a port on the loopback interface."""

    def __init__(self, port: int, trace: Path, **wanted: Any) -> None:
        spec = {
            "packets": {"interface": "lo"},
            "server": {"host": "127.0.0.1", "port": port},
            "output": str(trace),
            **wanted,
        }
        self.trace = trace
        self.running = _core.start_sql_capture(msgspec.json.encode(spec).decode())

    def end(self) -> Reading:
        self.running.stop()
        assert self.running.wait(WAIT_S), "the capture does not end"
        reported = msgspec.json.decode(self.running.result(), type=Reading)
        assert not reported.accounting.faults()
        return reported


@contextlib.contextmanager
def both(target: Target, name: str, folder: Path) -> Iterator[tuple[Capture, Packets]]:
    """Capture what is said to a database by a proxy, and from the packets behind it."""
    with capturing(target, name, folder / "proxy.trace") as proxy:
        packets = Packets(proxy.behind.port, folder / "packets.trace")
        try:
            yield proxy, packets
        finally:
            packets.running.stop()


def seen_of(reported: Reading) -> PacketCounts:
    assert reported.capture is not None
    assert reported.capture.packets is not None
    return reported.capture.packets


def assert_nothing_missing(reported: Reading) -> None:
    seen = seen_of(reported)
    missing = (seen.dropped, seen.gaps, seen.left_out, seen.cut, seen.unread, seen.crowded)
    assert missing == (0, 0, 0, 0, 0, 0)
    assert reported.capture is not None
    seen_of_wire = reported.capture
    assert (seen_of_wire.out_of_step, seen_of_wire.not_understood, seen_of_wire.defects) == (0,) * 3


def by_session(trace: Path) -> list[list[dict[str, Any]]]:
    """What a trace holds of each session, without times and without the number of the session."""
    sessions: dict[int, list[dict[str, Any]]] = {}
    for statement in _core.trace_statements(trace, 0, 1 << 30):
        own = {
            name: value for name, value in statement.items() if name not in ("session", "start_us")
        }
        own["duration_us"] = own["duration_us"] is not None
        sessions.setdefault(statement["session"], []).append(own)
    return sorted(sessions.values(), key=repr)


def assert_same(proxy: Capture, packets: Path) -> None:
    """The two traces hold the same, statement by statement."""
    expected, found = by_session(proxy.trace), by_session(packets)
    assert sum(map(len, expected)) > 0
    for one, other in zip(expected, found, strict=True):
        assert one == other


def pgbench(target: Target, name: str, port: int, *arguments: str) -> None:
    """Run pgbench by TCP."""
    environment = {
        "PGHOST": "127.0.0.1",
        "PGPORT": str(port),
        "PGUSER": target.address(name).user,
        "PGDATABASE": name,
        "PGSSLMODE": "disable",
    }
    done = subprocess.run(
        [target.cluster.binaries.program("pgbench"), "--no-vacuum", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def pgbench_tables(target) -> str:
    target.make("pgbench_packets")
    target.pgbench("pgbench_packets", "--initialize", "--quiet", "--scale=1")
    return "pgbench_packets"


@packets_seen
def test_all_that_psycopg_says_is_as_the_proxy_saw_it(target, tmp_path):
    began_s = time.time()
    name = target.make("talked_packets", talk.TABLES)
    with both(target, name, tmp_path) as (proxy, packets):
        at = proxy.address
        talk.talk(f"host={at.host} port={at.port} user={at.user} dbname={name} sslmode=disable")
        of_proxy = proxy.end()
        reported = packets.end()
    assert_nothing_missing(reported)
    assert_same(proxy, packets.trace)
    assert reported.started_at is not None
    assert reported.ended_at is not None
    assert began_s < reported.started_at < reported.ended_at < time.time()
    assert reported.accounting == of_proxy.accounting
    assert reported.session_count == of_proxy.session_count
    assert reported.capture is not None
    assert of_proxy.capture is not None
    assert msgspec.structs.replace(reported.capture, packets=None, open_max=0) == (
        msgspec.structs.replace(of_proxy.capture, open_max=0)
    )


@packets_seen
@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
def test_pgbench_is_as_the_proxy_saw_it_and_plays_again(protocol, pgbench_tables, target, tmp_path):
    name = target.make("captured_packets", template=pgbench_tables)
    counts = [f"--client={CLIENTS}", f"--transactions={TRANSACTIONS}"]
    with both(target, name, tmp_path) as (proxy, packets):
        pgbench(target, name, proxy.address.port, f"--protocol={protocol}", *counts)
        proxy.end()
        reported = packets.end()
    assert_nothing_missing(reported)
    assert_same(proxy, packets.trace)
    of_clients = CLIENTS * TRANSACTIONS * PER_TRANSACTION
    assert 0 <= reported.accounting.statements - of_clients <= 20
    played = target.make("played_packets", template=pgbench_tables)
    record = play(packets.trace, target.address(played))
    assert judge(record).ok, judge(record)
    assert target.sums(played) == target.sums(name)


@packets_seen
def test_a_large_result_and_a_large_copy_miss_nothing(target, tmp_path):
    name = target.make("large_packets", "CREATE TABLE t (id serial, note text)")
    with both(target, name, tmp_path) as (proxy, packets):
        at = proxy.address
        dsn = f"host={at.host} port={at.port} user={at.user} dbname={name} sslmode=disable"
        with psycopg.connect(dsn, autocommit=True) as connection:
            with connection.cursor().copy("COPY t (note) FROM STDIN") as copy:
                for _ in range(200):
                    copy.write("x" * 99_999 + "\n")
            rows = connection.execute("SELECT note FROM t").fetchall()
            connection.execute("INSERT INTO t (note) VALUES (%s) RETURNING id", ("y" * 300_000,))
        proxy.end()
        reported = packets.end()
    assert len(rows) == 200
    assert_nothing_missing(reported)
    assert_same(proxy, packets.trace)
    assert reported.capture is not None
    assert reported.capture.to_clients_bytes > 200 * 99_999


class PacketFile:
    """Writes the packets of a port of the loopback interface into a file, as tcpdump does."""

    def __init__(self, path: Path, port: int) -> None:
        self._path = path
        self._port = port
        self._ends = threading.Event()
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        self._socket.bind(("lo", 3))
        self._socket.settimeout(0.2)
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        with self._path.open("wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 101))
            while True:
                try:
                    packet, (_, _, kind, _, _) = self._socket.recvfrom(1 << 18)
                except TimeoutError:
                    if self._ends.is_set():
                        return
                    continue
                ports = struct.unpack("!HH", packet[20:24])
                if kind != socket.PACKET_OUTGOING and self._port in ports:
                    now_us = time.time_ns() // 1_000
                    size_bytes = len(packet)
                    head = (now_us // 1_000_000, now_us % 1_000_000, size_bytes, size_bytes)
                    file.write(struct.pack("<IIII", *head) + packet)

    def end(self) -> None:
        self._ends.set()
        self._thread.join(WAIT_S)
        self._socket.close()


@packets_seen
def test_a_file_of_packets_is_read_into_the_same_trace(target, tmp_path):
    name = target.make("filed_packets", talk.TABLES)
    with capturing(target, name, tmp_path / "proxy.trace") as proxy:
        file = PacketFile(tmp_path / "talked.pcap", proxy.behind.port)
        at = proxy.address
        talk.talk(f"host={at.host} port={at.port} user={at.user} dbname={name} sslmode=disable")
        proxy.end()
        file.end()
    done = seatrial(
        *("sql", "capture", "--pcap", "talked.pcap", "--to", f":{proxy.behind.port}"),
        *("-o", "packets.trace"),
        folder=tmp_path,
    )
    assert done.code == 0, done.out + done.err
    assert_same(proxy, tmp_path / "packets.trace")
    (tmp_path / "torn.pcap").write_bytes((tmp_path / "talked.pcap").read_bytes()[:-9])
    torn = seatrial(
        *("sql", "capture", "--pcap", "torn.pcap", "--to", ":5432", "-o", "torn.trace"),
        folder=tmp_path,
    )
    assert torn.code == 4, torn.err
    assert "The file of packets ends in the midst of one." in torn.out


@packets_seen
def test_a_session_that_was_there_before_is_joined_and_known(target, tmp_path):
    name = target.make("earlier_packets", talk.TABLES)
    with relay(server_place(target)) as server:
        user = target.address(name).user
        dsn = f"host=127.0.0.1 port={server.port} user={user} dbname={name} sslmode=disable"
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("SELECT 'before'")
            client = connection.pgconn.socket
            with socket.socket(fileno=os.dup(client)) as own:
                place = "{}:{}".format(*own.getsockname())
            known = {"client": place, "name": "77", "user": user, "database": name}
            packets = Packets(
                server.port, tmp_path / "t.trace", known=[known | {"application": "late"}]
            )
            with connection.transaction():
                connection.execute("SELECT 'waits'")
                connection.execute("SELECT 'waits'")
            for number in range(4):
                connection.execute(f"SELECT {number}")
            reported = packets.end()
    seen = seen_of(reported)
    assert (seen.earlier, seen.joined, seen.left_out, seen.gaps) == (1, 1, 0, 0)
    statements = _core.trace_statements(tmp_path / "t.trace", 0, 100)
    sqls = [statement["sql"] for statement in statements]
    assert sqls == [f"SELECT {number}" for number in range(4)][-len(sqls) :]
    assert len(sqls) >= 3
    assert any("were there before the capture: 1 were joined" in note for note in reported.notes)


def _capture(folder: Path, to: str) -> Command:
    """Start the command; wait until it captures."""
    process = start(
        "sql", "capture", "--interface", "lo", "--to", to, "-o", "t.trace", folder=folder
    )
    assert process.stderr is not None
    warned = []
    while line := process.stderr.readline():
        if line.startswith("Capturing the packets of lo"):
            return Command(process, [], "".join(warned))
        warned.append(line)
    raise AssertionError(f"it does not capture: {''.join(warned)}")


@packets_seen
def test_packets_that_the_kernel_dropped_are_counted_and_named(target, tmp_path):
    name = target.make("flooded_packets", talk.TABLES)
    with relay(server_place(target)) as server:
        dsn = f"host=127.0.0.1 port={server.port} user={target.address(name).user} dbname={name}"
        command = _capture(tmp_path, f"127.0.0.1:{server.port}")
        with psycopg.connect(f"{dsn} sslmode=disable", autocommit=True) as connection:
            connection.execute("SELECT 'first'")
            command.process.send_signal(signal.SIGSTOP)
            for _ in range(FLOODS):
                connection.execute(f"SELECT repeat('x', {FLOOD_BYTES})")
            command.process.send_signal(signal.SIGCONT)
            # It has to catch up before there is room for what follows.
            time.sleep(2)
            for number in range(9):
                connection.execute(f"SELECT {number}")
        done = command.end()
    assert done.code == 4, done.err
    assert re.search(r"The kernel dropped [0-9]+ packets", done.out), done.out
    assert re.search(r"[0-9]+ times packets of a connection were missing", done.out), done.out
    sqls = [statement["sql"] for statement in _core.trace_statements(tmp_path / "t.trace", 0, 100)]
    assert sqls[0] == "SELECT 'first'"
    assert sqls[-3:] == ["SELECT 6", "SELECT 7", "SELECT 8"]


@packets_seen
def test_who_encrypts_is_named(tmp_path):
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl, to make a certificate")
    names = ["-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "certificate")]
    subprocess.run(
        [openssl, "req", "-new", "-x509", "-nodes", "-days", "2", "-subj", "/CN=x", *names],
        check=True,
        capture_output=True,
    )
    with encrypting_server(tmp_path / "certificate", tmp_path / "key") as port:
        command = _capture(tmp_path, f"127.0.0.1:{port}")
        dsn = f"host=127.0.0.1 port={port} user=x dbname=x sslmode=require"
        with psycopg.connect(dsn, autocommit=True) as connection:
            assert connection.execute("SELECT 1", prepare=False).fetchall() == [("1",)]
            with socket.socket(fileno=os.dup(connection.pgconn.socket)) as own:
                place = "{}:{}".format(*own.getsockname())
            assert "sslmode=disable" in command.await_warning("encrypts")
        done = command.end()
    assert done.code == 4, done.err
    assert f"Encrypted clients: {place}." in done.out
    assert "1 connection: encrypted, not captured." in done.out


@packets_seen
def test_the_command_reports_what_it_did(target, pgbench_tables, tmp_path):
    name = target.make("reported_packets", template=pgbench_tables)
    with relay(server_place(target)) as server:
        user = target.address(name).user
        command = _capture(
            tmp_path, f"postgresql://{user}@127.0.0.1:{server.port}/{name}?sslmode=disable"
        )
        pgbench(target, name, server.port, "--client=1", "--transactions=10")
        done = command.end(signal.SIGTERM)
    assert done.code == 0, done.err
    assert "0 dropped by the kernel, 0 gaps" in done.out
    assert "a replay is never sent there" in done.out
    shown = seatrial("sql", "show", "t.trace", folder=tmp_path)
    assert shown.code == 0, shown.err
    assert "1 file (wire)" in shown.out


@packets_seen
def test_an_interface_that_is_missing_is_named(target, tmp_path):
    done = seatrial(
        *("sql", "capture", "--interface", "eth77", "--to", ":5432", "-o", "t.trace"),
        folder=tmp_path,
    )
    assert done.code == 2
    assert "no such interface" in done.err
    assert "ip -brief link" in done.err
    assert list(tmp_path.glob("t.trace*")) == []


def test_without_the_right_to_see_packets_the_next_step_is_reported(tmp_path):
    setpriv = shutil.which("setpriv")
    if setpriv is None or os.geteuid() != 0:
        pytest.skip("needs root and setpriv, to give the right up")
    without = (setpriv, "--bounding-set=-net_raw", "--inh-caps=-net_raw")
    process = start(
        *("sql", "capture", "--interface", "lo", "--to", ":5432", "-o", "t.trace"),
        folder=tmp_path,
        prefix=without,
    )
    done = ended(process)
    assert done.code == 2, done.err
    assert "CAP_NET_RAW" in done.err
    assert "--listen" in done.err


def test_what_makes_no_sense_is_refused(tmp_path):
    def refusal(*arguments: str) -> tuple[int, str]:
        done = seatrial("sql", "capture", *arguments, "-o", "x.trace", folder=tmp_path)
        return done.code, done.err

    code, err = refusal("--interface", "lo", "--to", "/run/postgresql")
    assert code == 2
    assert "--listen" in err
    assert refusal("--interface", "lo", "--listen", ":0", "--to", ":5432")[0] == 2
    assert refusal("--interface", "lo", "--pcap", "x", "--to", ":5432")[0] == 2
    assert refusal("--interface", "lo", "--to", ":99999")[0] == 2
    code, err = refusal("--pcap", "missing.pcap", "--to", ":5432")
    assert code == 2
    assert "missing.pcap cannot be read" in err
    (tmp_path / "log").write_text("LOG:  statement: select 1\n" * 9)
    code, err = refusal("--pcap", "log", "--to", ":5432")
    assert code == 2
    assert "tcpdump" in err
    assert list(tmp_path.glob("x.trace*")) == []
