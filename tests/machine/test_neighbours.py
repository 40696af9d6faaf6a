"""Who else was at a real device while cells were measured, as a real run reports it."""

import json

import pytest

from cli.command import ended, seatrial, start
from machine.conftest import run
from seatrial.units import MIB

pytestmark = pytest.mark.root

WRITE_ON = """
    import mmap, os, sys
    file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    block = mmap.mmap(-1, 1 << 20)
    print("up", flush=True)
    while True:
        for mib in range(64):
            os.pwrite(file, block, mib << 20)
"""


@pytest.fixture
def device(image, loops, mounts):
    """The folder of a file system on a loop device of its own."""
    made = loops(image(size_bytes=512 * MIB))
    run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(made))
    return mounts(made)


def foreign(reported):
    return [each for each in reported["findings"] if each["kind"] == "foreign_traffic"]


def programs(reported):
    """Findings of programs; a run of another test, on the disk below, has a finding of its own."""
    return [each for each in foreign(reported) if "other processes transferred" in each["sentence"]]


def test_a_program_that_writes_much_there_is_named(device, child, tmp_path):
    options = ("--size", "32MiB", "--seconds", "2", "--json")
    assert programs(seatrial("io", device, *options, folder=tmp_path).document) == []
    process = child(WRITE_ON, str(device / "other.dat"))
    assert process.stdout.readline() == "up\n"
    (found,) = programs(seatrial("io", device, *options, folder=tmp_path).document)
    assert "python" in found["sentence"]


def test_two_runs_on_one_device_name_each_other(device, tmp_path):
    runs = []
    for name in ("one", "other"):
        (device / name).mkdir()
        (tmp_path / name).mkdir()
        # Long, since on a busy machine one of them begins seconds after the other.
        words = ("io", device / name, "--size", "8MiB", "--seconds", "12", "--json")
        runs.append(start(*words, folder=tmp_path / name))
    reported = [json.loads(ended(each).out) for each in runs]
    for each, other in zip(reported, reversed(runs), strict=True):
        # What passed through the kernel for it may be a finding of its own.
        sentences = [finding["sentence"] for finding in foreign(each)]
        assert any(f"process {other.pid}" in sentence for sentence in sentences), sentences
