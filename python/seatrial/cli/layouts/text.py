"""What ``seatrial layout`` shows: the variants of a study, and the layouts that stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import click

from seatrial import program
from seatrial.report.table import NO_FIGURE, Table, as_text
from seatrial.stats.wording import format_duration_s, format_plural, format_size, moment
from seatrial.study.layouts.layout import Assigned, LayoutSpec
from seatrial.study.layouts.text import layout_text
from seatrial.trials.layouts.build.standing import Standing
from seatrial.trials.layouts.build.variant import Variant

WIDTH: Final = 100
_INDENT_MIN: Final = 13
_SYNC_SHOWN_FROM_S: Final = 0.1
"""Asking whether it has ended takes a moment even where there is none."""
_GONE: Final = "it is not there any more: the machine started anew, or somebody took it apart"


def variants_text(variants: Sequence[Variant]) -> str:
    """Return the variants as a table, and below it why some cannot be built here."""
    rows = [
        [
            each.label,
            each.spec.backend,
            each.spec.level,
            _drives(each.spec),
            _size(each.holds_bytes),
            each.survives,
            each.spec.filesystem,
            "no" if each.obstacle else "yes",
        ]
        for each in variants
    ]
    table = Table(
        id="variants",
        title=f"{format_plural(len(variants), 'variant')}",
        labels=8,
        headers=["Variant", "Backend", "Level", "Drives", "Holds", "Survives", "On it", "Here"],
        rows=rows,
    )
    by_obstacle: dict[str, list[str]] = {}
    for each in variants:
        if each.obstacle:
            by_obstacle.setdefault(each.obstacle, []).append(each.label)
    reasons = [
        click.wrap_text(f"{_few(labels)}: {reason}", WIDTH, subsequent_indent="  ")
        for reason, labels in by_obstacle.items()
    ]
    return "\n".join([as_text(table), *reasons]).rstrip()


def variant_text(variant: Variant) -> str:
    """Return one variant with its drives and the commands that build it."""
    spec = variant.spec
    facts = [
        ("layout", f"{spec.label}: {layout_text(spec)}"),
        ("holds", _size(variant.holds_bytes)),
        ("survives", variant.survives),
        *(_roles(variant.assigned) if variant.assigned else ()),
        ("here", variant.obstacle or "it can be built"),
    ]
    return "\n".join([_facts_text(facts), *([""] if variant.commands else []), *variant.commands])


def standing_text(standing: Standing) -> str:
    """Return one layout that stands, with where it is and what the system tells of it."""
    spec = standing.spec
    there = standing.is_there()
    facts = [
        ("layout", f"{spec.label}: {layout_text(spec)}"),
        ("is at", ", ".join(standing.places) if there else _GONE),
        *_roles(standing.assigned),
        ("built", _built_text(standing)),
        *standing.facts.items(),
        ("aligned", " ".join(standing.misaligned) or "yes: drives, array and file system"),
        (
            "measure",
            f"{program.called()} run {standing.places[0]}" if there and standing.folders else "",
        ),
        ("undo", f"{program.called()} layout destroy {standing.run_id}"),
    ]
    return _facts_text([(name, text) for name, text in facts if text])


def _roles(places: Assigned) -> Iterator[tuple[str, str]]:
    for number, leg in enumerate(places.legs, start=1):
        yield (f"leg {number}" if len(places.legs) > 1 else "drives"), " ".join(leg)
        if spares := places.spares[number - 1]:
            yield "spares", " ".join(spares)
    for name, drives in (("logs", places.logs), ("caches", places.caches)):
        if drives:
            yield name, " ".join(drives)


def _built_text(standing: Standing) -> str:
    reported = f"{moment(standing.built_at)}, in {format_duration_s(standing.built_s)}"
    if standing.synced_s < _SYNC_SHOWN_FROM_S:
        return reported
    return f"{reported}, then synchronised for {format_duration_s(standing.synced_s)}"


def _drives(spec: LayoutSpec) -> str:
    """Return how many drives a variant has: ``4``, ``2x4``, with others ``2x4+1``."""
    legs = f"{spec.legs}x" if spec.legs > 1 else ""
    others = "".join(f"+{count}" for count in (spec.spares, spec.logs, spec.caches) if count)
    return f"{legs}{spec.drives}{others}"


def _size(size_bytes: int | None) -> str:
    return NO_FIGURE if size_bytes is None else format_size(size_bytes)


def _few(labels: Sequence[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{labels[0]} to {labels[-1]} ({len(labels)})"


def _facts_text(facts: Sequence[tuple[str, str]]) -> str:
    """Return facts below each other, their texts in one column."""
    indent = max(_INDENT_MIN, *(len(name) + 2 for name, _text in facts))
    return "\n".join(
        click.wrap_text(
            text, WIDTH, initial_indent=name.ljust(indent), subsequent_indent=" " * indent
        )
        for name, text in facts
    )
