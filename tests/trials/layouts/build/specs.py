"""Variants and drives that the tests of arrays share."""

from __future__ import annotations

from seatrial.study.layouts.layout import DriveRoles, LayoutSpec, assigned

NAME = "seatrial-20261121-074500-3fa2-1"
DRIVES = [f"/dev/sd{letter}" for letter in "abcdefgh"]


def variant(backend: str = "md", level: str = "raid5", drives: int = 3, **others) -> LayoutSpec:
    return LayoutSpec(
        label="v", name="v", backend=backend, level=level, drives=drives, **{**others}
    )


def built_of(spec: LayoutSpec, drives: list[str] | None = None) -> DriveRoles:
    return assigned(spec, drives or DRIVES[: spec.members])
