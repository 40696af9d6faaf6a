"""A report that could not be written is refused before anything is measured."""

from __future__ import annotations

import pytest

from seatrial.cli.files import require_writable
from seatrial.errors import UsageError


def test_a_file_in_a_folder_of_ones_own_is_fine(tmp_path):
    require_writable(tmp_path / "report.html")
    (tmp_path / "report.html").write_text("older")
    require_writable(tmp_path / "report.html")


def test_a_folder_or_a_file_in_none_is_refused(tmp_path):
    for place in (tmp_path, tmp_path / "gone" / "report.html", tmp_path / "file" / "report.html"):
        (tmp_path / "file").write_text("no folder")
        with pytest.raises(UsageError, match="cannot be written"):
            require_writable(place)
