"""What ``check`` says of the layouts that could be built on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from seatrial.program import with_root
from seatrial.trials.layouts.build.check import LayoutCheck

WIDTH: Final = 100
_INDENT: Final = 13


def layouts_text(check: LayoutCheck) -> str:
    """Return a check as lines below those of machine and target."""
    first, *others = [
        click.wrap_text(line, WIDTH - _INDENT, subsequent_indent="  ") for line in _lines(check)
    ]
    reported = "\n".join([f"{'layouts':<{_INDENT}}{first}", *others])
    return reported.replace("\n", "\n" + " " * _INDENT)


def _lines(check: LayoutCheck) -> Iterator[str]:
    able = [each.name for each in check.backends if not each.lacks]
    if able:
        rights = "" if check.is_root else f" {with_root()}"
        yield f"{', '.join(able)} can be built here{rights}"
    # What several lack for one and the same reason is said once.
    by_reason: dict[str, list[str]] = {}
    for each in check.backends:
        if each.lacks:
            by_reason.setdefault(each.lacks, []).append(each.name)
    for reason, names in by_reason.items():
        yield f"{', '.join(names)} cannot: {reason}"
    if check.lab_is_set_up:
        yield "the lab is set up, without root: `seatrial lab FILE --disks 6x256M`"
    else:
        yield "the lab, which has them all without root, is not set up: `seatrial lab --setup`"
