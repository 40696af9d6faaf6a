"""What RAID levels hold and survive, by the textbook and by mkfs.btrfs(8)."""

from __future__ import annotations

import pytest

from seatrial.study.layouts.layout import LEVELS, level_facts


@pytest.mark.parametrize(
    ("level", "drives", "data", "losses"),
    [
        ("single", 1, 1, 0),
        ("raid0", 4, 4, 0),
        ("raid1", 3, 1, 2),
        ("raid10", 6, 3, 1),
        ("raid5", 5, 4, 1),
        ("raid6", 5, 3, 2),
        ("stripe", 3, 3, 0),
        ("mirror", 2, 1, 1),
        ("raidz1", 3, 2, 1),
        ("raidz2", 6, 4, 2),
        ("raidz3", 7, 4, 3),
    ],
)
def test_a_level_holds_and_survives(level, drives, data, losses):
    facts = LEVELS[level]
    assert facts.data_members(drives) == data
    assert facts.losses_survived(drives) == losses
    assert drives >= facts.members_min


def test_a_raid1_of_btrfs_holds_two_copies_on_any_number_of_drives():
    facts = level_facts("btrfs", "raid1")
    assert facts.data_members(3) == 1.5
    assert facts.losses_survived(3) == 1
    assert level_facts("md", "raid1") is LEVELS["raid1"]
    assert level_facts("btrfs", "raid5") is LEVELS["raid5"]
