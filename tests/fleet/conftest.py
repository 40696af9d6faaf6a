"""One cluster for the whole session, which leaves nothing behind though hosts were killed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fleet.shared_lab import HOSTS, LabRequest, lab_of, require_ray, throttled_folder
from seatrial.fleet.undoing import STATE


@pytest.fixture(scope="package")
def target(tmp_path_factory):
    """A folder on a device of which all hosts together get 1,500 requests a second."""
    require_ray()
    with throttled_folder(tmp_path_factory.mktemp("throttled")) as folder:
        yield folder


@pytest.fixture(scope="package")
def lab(target):
    """Four hosts; the clock of the second is 3 s ahead."""
    request = LabRequest(hosts_count=HOSTS, clock_shifts_s={2: 3.0}, sets_clocks=True)
    with lab_of(request, f"fleet-tests-{os.getpid()}") as built:
        yield built
        left = made_by_killed(built._folder)
    assert not [each for each in left if each.exists()]


def made_by_killed(lab: Path) -> list[Path]:
    """What hosts of a lab had made when they were killed, by their journals."""
    lines = [
        json.loads(line)
        for journal in lab.glob(f"*/{STATE}/*.jsonl")
        for line in journal.read_text().splitlines()
    ]
    return [Path(each["details"]["path"]) for each in lines if each.get("kind") == "file"]
