"""The names of disks, as the kernel lists them."""

from __future__ import annotations

import pytest

from seatrial.errors import TargetError
from seatrial.trials.watch.measure import watching


def test_a_container_without_sys_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "_DISKS", tmp_path / "block")
    with pytest.raises(TargetError) as refused:
        watching.device_names()
    assert str(tmp_path / "block") in refused.value.seen
    assert "mount -t sysfs" in refused.value.next_step


def test_a_disk_that_is_removed_meanwhile_has_no_name(tmp_path, monkeypatch):
    (tmp_path / "sda").mkdir()
    (tmp_path / "sda/dev").write_text("8:0\n")
    (tmp_path / "sdb").mkdir()
    monkeypatch.setattr(watching, "_DISKS", tmp_path)
    assert watching.device_names() == {(8, 0): "sda"}
