"""What ``seatrial fleet lab`` is asked for, before any host exists."""

from __future__ import annotations

import shlex

import pytest

from cli.command import seatrial
from fleet.shared_lab import study_of
from seatrial.fleet import lab
from seatrial.fleet.lab import FleetLab, LabRequest


@pytest.mark.parametrize(("host", "code"), [("host0", 2), ("host1", 0), ("host2", 0), ("host3", 2)])
def test_a_fault_of_a_host_that_is_not_there_is_refused(tmp_path, host, code):
    study = tmp_path / "study.toml"
    study.write_text(study_of(tmp_path, "[1, 2]"))
    fault = ("--fault", f"kill:{host}:1")
    ended = seatrial("fleet", "lab", study, *fault, "--plan", folder=tmp_path)
    assert ended.code == code, ended.err
    assert (host in ended.err) is bool(code)


def test_paths_may_have_blanks(tmp_path, monkeypatch):
    monkeypatch.setattr(lab, "FOLDERS", tmp_path / "a b")
    built = FleetLab(LabRequest(hosts_count=1, own_paths=["/mnt/my disk"]), None)
    built._folder.mkdir(parents=True)
    binds = [line.split() for line in built._host_command(1).split(" && ") if "mount" in line]
    words = [shlex.split(" ".join(line)) for line in binds]
    assert all(len(each) == 4 for each in words)
    assert words[-1] == ["mount", "--bind", str(built._host_folder(1) / "disk0"), "/mnt/my disk"]
    assert f"--temp-dir={built._folder / 'ray'}" in shlex.split(built._head_command(1))
