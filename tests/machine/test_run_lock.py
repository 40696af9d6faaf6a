"""Two runs on one directory, file or device: one at a time, whatever each calls it."""

import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from machine.conftest import run
from machine.test_uses import FakeMachine
from seatrial.errors import RefusedError
from seatrial.machine.fingerprint.medium import extent_of_device
from seatrial.machine.run_lock import RunLock, identities

HOLD = """
    import sys
    from pathlib import Path
    from seatrial.machine.run_lock import RunLock
    with RunLock([Path(each) for each in sys.argv[1:]], waits=False, report=print):
        print("held", flush=True)
        sys.stdin.readline()
"""


def lock(*paths, waits=False, report=lambda _: None):
    return RunLock([Path(path) for path in paths], waits=waits, report=report)


@pytest.fixture
def hold(tmp_path_factory):
    """Have paths locked by another process, whose command line is short enough to be shown."""
    script = tmp_path_factory.mktemp("s") / "hold.py"
    script.write_text(textwrap.dedent(HOLD))
    started = []

    def start(*paths):
        process = subprocess.Popen(
            [sys.executable, str(script), *map(str, paths)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def refused(*paths):
    with pytest.raises(RefusedError) as caught, lock(*paths):
        pass
    return str(caught.value)


def test_a_second_run_is_refused_and_names_the_first(tmp_path, hold):
    process = hold(tmp_path)
    text = refused(tmp_path)
    assert f"Another run is measuring {tmp_path}: process {process.pid}" in text
    assert "`hold.py /" in text, "its command line"
    assert f"since {time.strftime('%Y-')}" in text
    assert "`--wait`" in text
    assert RefusedError.exit_code == 5


def test_a_killed_run_blocks_nobody(tmp_path, hold):
    process = hold(tmp_path)
    refused(tmp_path)
    process.kill()
    process.wait(10)
    with lock(tmp_path):
        pass


def test_a_run_that_waits_goes_on_when_the_first_has_ended(tmp_path, hold):
    process = hold(tmp_path)
    reported = []

    def end_it(sentence):
        reported.append(sentence)
        threading.Timer(0.3, process.communicate, args=("\n",)).start()

    with lock(tmp_path, waits=True, report=end_it):
        assert process.wait(10) == 0
    assert len(reported) == 1
    assert f"process {process.pid}" in reported[0]


def test_other_directories_are_measured_at_the_same_time_and_know_of_it(tmp_path, hold):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    process = hold(tmp_path / "one")
    on_device = os.major(tmp_path.stat().st_dev) > 0
    # Other tests may measure on this disk meanwhile.
    with lock(tmp_path / "other") as own:
        assert (process.pid in [each.pid for each in own.neighbours()]) == on_device
    process.communicate("\n")
    with lock(tmp_path / "other") as own:
        assert process.pid not in [each.pid for each in own.neighbours()]


def test_all_places_or_none_so_that_two_runs_never_wait_for_each_other(tmp_path, hold):
    for name in "abc":
        (tmp_path / name).mkdir()
    process = hold(tmp_path / "b")
    refused(tmp_path / "a", tmp_path / "b", tmp_path / "c")
    hold(tmp_path / "a", tmp_path / "c")
    process.communicate("\n")


def by_a_symbolic_link(folder, stack):
    link = folder.with_name("link")
    link.symlink_to(folder)
    return link


def by_dots(folder, stack):
    return folder / ".." / folder.name


def by_a_bind_mount(folder, stack):
    point = folder.with_name("bound")
    point.mkdir()
    run("mount", "--bind", str(folder), str(point))
    stack.callback(subprocess.run, ["umount", str(point)], check=False)
    return point


def by_a_new_name(folder, stack):
    return folder.rename(folder.with_name("renamed"))


@pytest.mark.root
@pytest.mark.parametrize("way", [by_a_symbolic_link, by_dots, by_a_bind_mount, by_a_new_name])
def test_a_directory_is_one_by_every_name(tmp_path, hold, way):
    folder = tmp_path / "measured"
    folder.mkdir()
    hold(folder)
    with ExitStack() as stack:
        assert "Another run" in refused(way(folder, stack))


@pytest.mark.root
def test_users_of_one_machine_meet(hold):
    code = """
        import os, sys
        from pathlib import Path
        from seatrial.errors import RefusedError
        from seatrial.machine.run_lock import RunLock
        os.setuid(65534)
        try:
            with RunLock([Path(sys.argv[1])], waits=False, report=print):
                print("let pass")
        except RefusedError as error:
            print(error)
    """
    # The folders above that of a test belong to root alone.
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        Path(folder).chmod(0o755)
        process = hold(folder)
        reported = run(sys.executable, "-c", textwrap.dedent(code), folder)
        assert f"process {process.pid}" in reported


@pytest.mark.root
class TestDevices:
    def test_loops_over_one_file_and_that_file_are_one(self, image, loops, hold):
        path = image()
        first, second = loops(path), loops(path)
        process = hold(first)
        for other in (second, path):
            assert f"process {process.pid}" in refused(other)

    def test_partitions_of_one_disk_are_one(self, image, loops, hold):
        disk = loops(image(), "--partscan")
        for number, start in ((1, 2048), (2, 60000)):
            run("addpart", str(disk), str(number), str(start), "40000")
        hold(f"{disk}p1")
        for other in (f"{disk}p2", disk):
            refused(other)

    def test_other_devices_are_free(self, image, loops, hold):
        first, second = loops(image("a.img")), loops(image("b.img"))
        hold(first)
        with lock(second):
            pass


def test_two_paths_to_one_disk_and_volumes_on_it_are_one(tmp_path):
    machine = FakeMachine(tmp_path / "machine")
    for name, number in (("sda", "8:0"), ("sdb", "8:16")):
        machine.disk(name, number, size=99, device__wwid="naa.6000c29f1")
        machine.write(f"dev/{name}", "")
    machine.disk("dm-0", "253:0", on=["sdb"], dm__name="vg-db")
    machine.write("sys/devices/virtual/block/dm-0/slaves/sdb/dev", "8:16")
    machine.write("dev/dm-0", "")
    assert extent_of_device(machine.tree, "8:0").medium.lasting == "naa.6000c29f1"
    found = [set(identities(Path(f"/dev/{name}"), machine.tree)) for name in ("sda", "sdb", "dm-0")]
    assert found[0] & found[1]
    assert found[0] & found[2]


def test_a_password_on_a_command_line_is_not_reported(tmp_path, hold):
    hold("postgresql://me:hunter2@host/db", tmp_path)
    text = refused(tmp_path)
    assert "hunter2" not in text
    assert "postgresql://me:***@host/db" in text


def test_one_server_by_several_addresses(tmp_path):
    addresses = [
        "postgresql://me@localhost/one",
        "postgresql://127.0.0.1:5432/other",
        "postgresql:///x?host=/run/postgresql",
    ]
    with RunLock([], servers=addresses[:1], waits=False, report=print) as own:
        for address in addresses:
            other = RunLock([], servers=[address], waits=False, report=print)
            assert other._paths.keys() == own._paths.keys()
    other = RunLock([], servers=["postgresql://db2/one"], waits=False, report=print)
    assert other._paths.keys() != own._paths.keys()
