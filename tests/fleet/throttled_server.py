"""A PostgreSQL that hosts of a lab reach by their network, and whose commits are so many a second.

A hot row is held from its update to the end of the commit, so that the flushes of its device are
the limit, whoever asks, and however many do.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from fleet.shared_lab import run
from kernel.injections import Group, blkio
from postgres.programs import installed_programs

WRITES_PER_S = 200
SEGMENTS = 12
IMAGE_BYTES = 600 << 20
NOBODY = 65534
SETTINGS = {
    "max_connections": 60,
    "full_page_writes": "off",
    "autovacuum": "off",
    "checkpoint_timeout": "1h",
    "min_wal_size": "400MB",
}


@dataclass(frozen=True)
class LabServer:
    """A server on this machine.

    Attributes:
        url: By which hosts of the lab reach it.
    """

    url: str

    def value(self, text: str) -> object:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(text)
            return cursor.fetchall()[0][0] if cursor.description else None


@contextmanager
def lab_server(place: Path, address: str) -> Iterator[LabServer]:
    """Start a server for whoever is in the network of an address; its log's device is throttled."""
    programs, point = installed_programs(), place / "disk"
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, place, ignore_errors=True)
        point.mkdir(parents=True)
        image = place / "image"
        with image.open("wb") as made:
            made.truncate(IMAGE_BYTES)
        run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0", str(image))
        loop = run("losetup", "--find", "--show", "--direct-io=off", str(image)).strip()
        undo.callback(run, "losetup", "-d", loop)
        run("mount", loop, str(point))
        undo.callback(run, "umount", "-l", str(point))
        data = point / "data"
        data.mkdir(mode=0o700)
        os.chown(data, NOBODY, NOBODY)
        as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        initdb, control = programs.program("initdb"), str(programs.program("pg_ctl"))
        run(*as_nobody, str(initdb), "--username=bench", "--auth=trust", f"--pgdata={data}")
        with (data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 10.0.0.0/8 trust\n")
        with socket.create_server((address, 0)) as free:
            port = free.getsockname()[1]
        settings = SETTINGS | {
            "port": port,
            "listen_addresses": address,
            "unix_socket_directories": data,
        }
        with (data / "postgresql.conf").open("a") as configuration:
            configuration.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        started = [*as_nobody, control, "-w", "-D", str(data), "-l", str(data / "log")]
        run(*started, "start")
        undo.callback(run, *started, "-m", "immediate", "stop")
        server = LabServer(f"postgresql://bench@{address}:{port}/postgres")
        # Segments of the log are made now: one that a session has to make is many writes.
        for _ in range(SEGMENTS):
            server.value("CREATE TABLE made ()")
            server.value("SELECT pg_switch_wal()::text")
            server.value("DROP TABLE made")
        server.value("CHECKPOINT")
        blkio()
        group = undo.enter_context(Group())
        undo.callback(_leave, group.path)
        number = (Path("/sys/block") / Path(loop).name / "dev").read_text().strip()
        group.limit(number, WRITES_PER_S)
        # Its later children are sessions; each flushes its own commit.
        postmaster = (data / "postmaster.pid").read_text().splitlines()[0]
        (group.path / "cgroup.procs").write_text(postmaster)
        yield server


def _leave(group: Path) -> None:
    for pid in (group / "cgroup.procs").read_text().split():
        subprocess.run(["sh", "-c", f"echo {pid} > {group.parent}/cgroup.procs"], check=False)
