"""The command ``seatrial watch``, as a user types it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time

import pytest

from cli.command import ended, seatrial, start

ORDINARY = (
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
    # The checkout may lie in a folder of root's own.
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
)
"""Runs a command as an ordinary user, who may read all files."""


@pytest.mark.root
def test_it_counts_until_its_time_is_over(tmp_path):
    watched = seatrial("watch", tmp_path, "--for", "0.5", "--every", "0.2", folder=tmp_path)
    assert (watched.code, "Level 2 of 3: " in watched.err) == (0, True), watched
    timed = [line for line in watched.out.splitlines() if line[2:3] == ":" and line[5:6] == ":"]
    assert len(timed) == 3


@pytest.mark.root
def test_ctrl_c_ends_it_with_the_tables(tmp_path):
    process = start("watch", "--every", "0.1", folder=tmp_path)
    for _ in range(3):
        process.stdout.readline()
    (tmp_path / "f").write_bytes(b"x" * 4096)
    os.sync()
    process.send_signal(signal.SIGINT)
    watched = ended(process, 20)
    assert watched.code == 0, watched
    assert "By disk and operation" in watched.out


@pytest.mark.root
def test_lines_of_json_are_one_object_each(tmp_path):
    watched = seatrial("watch", "--for", "0.3", "--every", "0.1", "--json", folder=tmp_path)
    assert (watched.code, watched.err) == (0, "")
    documents = [json.loads(line) for line in watched.out.splitlines()]
    assert len(documents) == 3
    assert all(each["duration_s"] > 0 and each["lost"]["uncounted"] == 0 for each in documents)


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root to give it up"
)
def test_an_ordinary_user_gets_the_counters_and_hears_what_root_would_add(tmp_path):
    tmp_path.chmod(0o777)
    process = start("watch", "--for", "0.3", folder=tmp_path, prefix=ORDINARY)
    watched = ended(process, 20)
    assert watched.code == 0, watched
    assert "Level 1 of 3: the kernel's counters of each disk" in watched.err
    assert "CAP_BPF" in watched.err
    refused = ended(start("watch", "--pid", "1", folder=tmp_path, prefix=ORDINARY), 20)
    assert refused.code != 0
    assert "CAP_BPF" in refused.err


@pytest.mark.root
def test_a_process_that_is_not_there_is_refused_and_one_that_ends_ends_the_watch(tmp_path):
    with subprocess.Popen(["sleep", "2"]) as own:
        process = start("watch", "--pid", str(own.pid), "--for", "30", folder=tmp_path)
        own.wait()
        watched = ended(process, 20)
    assert (watched.code, f"Process {own.pid} has ended" in watched.err) == (0, True), watched
    absent = seatrial("watch", "--pid", str(own.pid), "--for", "1", folder=tmp_path)
    assert absent.code == 6, absent
    assert f"There is no process {own.pid}" in absent.err
    thread = threading.Thread(target=time.sleep, args=(10,), daemon=True)
    thread.start()
    of_thread = seatrial("watch", "--pid", str(thread.native_id), "--for", "1", folder=tmp_path)
    assert of_thread.code == 6, of_thread
    inside = ("unshare", "--pid", "--fork", "--mount-proc")
    process = start("watch", "--pid", "1", "--for", "1", folder=tmp_path, prefix=inside)
    refused = ended(process, 20)
    assert refused.code == 6, refused
    assert "PID namespace" in refused.err


def test_what_is_no_disk_is_refused_by_name(tmp_path):
    absent = seatrial("watch", "/nowhere", folder=tmp_path)
    assert absent.code == 6, absent
    assert "/nowhere cannot be watched: No such file or directory" in absent.err
    proc = seatrial("watch", "/proc", folder=tmp_path)
    assert proc.code == 6, proc
    assert "/proc cannot be watched: The file system is not on a single disk" in proc.err
