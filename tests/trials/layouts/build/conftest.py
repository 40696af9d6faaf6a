"""The devices and folders of the tests of the machine, for arrays."""

import pytest

from machine.conftest import _swept, child, image, loops, mounts, state_dir
from seatrial.machine.fingerprint.tree import CommandOutput
from seatrial.trials.layouts.build import running


@pytest.fixture
def blkid(monkeypatch) -> list[str]:
    """What blkid lists of a made-up machine, a drive each; nothing at first."""
    listed: list[str] = []
    monkeypatch.setattr(
        running, "attempt", lambda _command: CommandOutput(0, "\n\n".join(listed), "")
    )
    return listed
