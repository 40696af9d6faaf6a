"""A server that its memory limit would kill is refused before anything is loaded."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from seatrial.errors import TargetError, UsageError
from seatrial.postgres.server import died_during_run
from seatrial.trials.database.measure.embedded import explain_error

from .trial import trial

STUDY = """
name = "tight"
[[target]]
path = "{folder}"
[[workload]]
kind = "pgbench"
scale = 1
clients = 4
memory_limit = "96MiB"
settings = {{ shared_buffers = "{buffers}" }}
"""


@pytest.mark.root
def test_a_limit_below_the_shared_buffers_is_refused(tmp_path):
    study = STUDY.format(folder=tmp_path, buffers="80MB")
    reported = "A memory limit of 96 MiB is less than the 120 MiB"
    with pytest.raises(UsageError, match=reported), trial(tmp_path, study):
        pass


@pytest.mark.root
def test_a_later_workload_is_refused_before_the_first_one_is_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr("seatrial.trials.database.measure.embedded.load_databases", pytest.fail)
    first = STUDY.format(folder=tmp_path, buffers="32MB")
    later = first.partition("[[workload]]")[2].replace("32MB", "80MB").replace("le = 1", "le = 2")
    study = f'{first}[[workload]]\nname = "later"{later}'
    with pytest.raises(UsageError, match="less than the 120 MiB"), trial(tmp_path, study):
        pass


@pytest.mark.root
def test_a_limit_that_holds_the_server_is_taken(tmp_path):
    with trial(tmp_path, STUDY.format(folder=tmp_path, buffers="32MB")) as opened:
        assert len(opened.plan.cells) == 1


def test_a_process_that_the_kernel_killed_at_the_limit_is_no_fault_of_the_script(tmp_path):
    """The server that lost it ends all others, and lives on."""
    server = SimpleNamespace(
        memory=SimpleNamespace(kills=lambda: 1),
        is_alive=lambda: True,
        death_error=lambda: died_during_run(Path("/d"), "", 1),
    )
    refused = TargetError(seen="pgbench failed", cause="A statement failed", next_step="Try it")
    assert "killed 1 of its processes at the memory limit" in str(explain_error(refused, server))
    server.memory = SimpleNamespace(kills=lambda: 0)
    server.data_folder, server.log_tail = tmp_path, lambda: ""
    assert explain_error(refused, server) is refused
