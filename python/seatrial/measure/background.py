"""Activity alongside a sample's load, begun right before it and reported right after it."""

from __future__ import annotations

from typing import Protocol, Self


class Background(Protocol):
    """Activity that observes or disturbs the target of a load.

    A context around the load and its counters; preparation before and cleanup after it belong to
    no sample.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object, /) -> None: ...

    def settle(self) -> None:
        """Wait, after the load, until the target has recovered from the disturbance, if it can."""


class NoBackground:
    """No background activity."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        """Do nothing."""

    def settle(self) -> None:
        """Wait for nothing."""
