"""What the folder of a test lies on."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial.errors import TargetError
from seatrial.trials.watch.measure.volume import Volume, volume_of


def volume_below(folder: Path) -> Volume:
    """What a folder lies on; the test is skipped where that is not a disk."""
    try:
        return volume_of(folder.stat().st_dev)
    except TargetError:
        pytest.skip("needs a folder on a disk")
