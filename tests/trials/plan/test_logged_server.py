"""A log that a real server wrote, as a need: its commits are those that pgbench counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from postgres.programs import installed_programs
from seatrial.trials.plan.commands.load_source import log_load_of
from trials.replay.logging_server import MODES, QUIET, logging_server

CLIENTS, TRANSACTIONS = 4, 250
SILENCED = len(QUIET)
"""ALTER SYSTEM, with which the log is ended, counts as a change of the catalogue."""


@pytest.mark.slow
def test_commits_of_a_log_are_those_that_pgbench_counted(tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("logged")
    with logging_server(folder, installed_programs()) as server:
        server.pgbench("-i", "-q", "-s", "1")
        settings = MODES["log_min_duration"]
        with server.logging("writes", **settings):
            wanted = server.pgbench("-n", "-c", f"{CLIENTS}", "-t", f"{TRANSACTIONS}")
        with server.logging("reads", **settings):
            server.pgbench("-n", "-S", "-c", f"{CLIENTS}", "-t", f"{TRANSACTIONS}")
        assert wanted == CLIENTS * TRANSACTIONS
        for form in server.formats:
            load = log_load_of(str(server.log("writes", form)))
            assert load is not None
            commits = (load.commits_per_s_min.sum(), load.commits_per_s_max.sum())
            assert commits[0] * load.slot_s == pytest.approx(wanted + SILENCED)
            assert commits[1] * load.slot_s == pytest.approx(wanted + SILENCED)
            assert load.sessions_max >= CLIENTS
            assert load.commit_ms is not None
            assert 0 < float(load.at_work.max()) <= CLIENTS
            quiet = log_load_of(str(server.log("reads", form)))
            assert quiet is not None
            assert quiet.commits_per_s_max.sum() * quiet.slot_s == pytest.approx(SILENCED)
