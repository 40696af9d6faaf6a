"""The options of ``seatrial db`` reach the study, whatever kind of word they are."""

from __future__ import annotations

from cli.command import seatrial
from postgres.programs import installed_programs


def test_the_programs_of_another_postgresql_are_taken(tmp_path):
    folder = installed_programs().folder
    planned = seatrial("db", tmp_path, "--pg-bin", folder, "--plan", folder=tmp_path)
    assert planned.code == 0, planned.err
    missing = tmp_path / "nowhere"
    refused = seatrial("db", tmp_path, "--pg-bin", missing, "--scale", "1", folder=tmp_path)
    assert refused.code != 0
    assert str(missing) in refused.err
