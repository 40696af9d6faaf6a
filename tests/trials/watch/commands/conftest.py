"""A disk of our own, whose every request is known."""

from __future__ import annotations

from trials.watch.conftest import disk

__all__ = ["disk"]
