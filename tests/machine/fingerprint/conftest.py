"""Fixtures of the context room."""

from pathlib import Path

import pytest
from fake_trees import FakeMachine


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    """An empty machine: everything about it is unknown until a test lays it down."""
    return FakeMachine(tmp_path)
