"""Servers that several hosts load: which studies make sense."""

from __future__ import annotations

import pytest

from seatrial.errors import StudyError
from seatrial.study.load import study_from_mapping

SERVER = {"url": "postgresql://bench@db1/postgres"}
PGBENCH = {"kind": "pgbench", "scale": 1}


def study(**changes):
    mapping = {"name": "x", "hosts": {"counts": [1, 2]}, "target": [SERVER], "workload": [PGBENCH]}
    return study_from_mapping(mapping | changes, "x.toml")


def test_hosts_load_a_server():
    assert study().hosts.counts == [1, 2]
    assert study(workload=[{"kind": "telemetry"}]).hosts.counts == [1, 2]


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({"target": [{"path": "/mnt/ssd"}]}, "is a directory, and .hosts. load a server"),
        ({"hosts": {"counts": [1], "files": "own"}}, "has no effect on servers"),
        ({"workload": [PGBENCH, {"kind": "io"}]}, "cannot be in one study"),
        ({"workload": [{"kind": "batch", "file": "x.sql"}]}, "a batch is that of one machine"),
    ],
)
def test_what_hosts_cannot_load_is_refused(changes, seen):
    with pytest.raises(StudyError, match=seen):
        study(**changes)
