"""What goes on beside a sample's load: begun right before it, and told right after it."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self


class Background(Protocol):
    """Something that watches or disturbs what a load is put on.

    It is a context around the load and the readings of its surroundings, nothing else: what is
    prepared before and put away after belongs to no sample.
    """

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def settle(self) -> None:
        """Wait, after the load, until what it disturbed is whole again, as far as it will be."""


class Nothing:
    """Nothing goes on beside the load."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing."""

    def settle(self) -> None:
        """Wait for nothing."""
