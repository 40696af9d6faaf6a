"""The options of ``seatrial db`` reach the study, whatever kind of word they are."""

from __future__ import annotations

import pytest

from cli.command import seatrial
from seatrial.errors import TargetError
from seatrial.targets.postgres.binaries import find_binaries


def test_the_programs_of_another_postgresql_are_taken(tmp_path):
    try:
        folder = find_binaries().folder
    except TargetError as error:
        pytest.skip(f"needs a PostgreSQL: {error}")
    planned = seatrial("db", tmp_path, "--pg-bin", folder, "--plan", folder=tmp_path)
    assert planned.code == 0, planned.err
    missing = tmp_path / "nowhere"
    refused = seatrial("db", tmp_path, "--pg-bin", missing, "--scale", "1", folder=tmp_path)
    assert refused.code != 0
    assert str(missing) in refused.err
