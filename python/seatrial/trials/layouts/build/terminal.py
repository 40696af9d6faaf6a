"""Layouts on the terminal: the variants of a study, their commands, and standing layouts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from seatrial import program
from seatrial.report.table import NO_FIGURE, Table
from seatrial.report.terminal import table_text, wrapped
from seatrial.stats.wording import format_duration_s, format_plural, format_size, moment
from seatrial.study.layouts.layout import DriveRoles, LayoutSpec
from seatrial.study.layouts.text import layout_text
from seatrial.trials.layouts.build.build import VariantPlan
from seatrial.trials.layouts.build.standing import StandingLayout

_INDENT_MIN: Final = 13
_SYNC_SHOWN_FROM_S: Final = 0.1
"""Even without a synchronisation, the check takes a moment."""
_GONE: Final = "it no longer exists: the machine was restarted, or the layout was removed"


def variants_text(variants: Sequence[VariantPlan]) -> str:
    """Return the variants as a table, followed by the reasons why some cannot be built here."""
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
        headers=[
            *("Layout", "Backend", "Level", "Drives", "Capacity", "Tolerates", "File system"),
            "Available",
        ],
        rows=rows,
    )
    by_obstacle: dict[str, list[str]] = {}
    for each in variants:
        if each.obstacle:
            by_obstacle.setdefault(each.obstacle, []).append(each.label)
    reasons = [
        wrapped(f"{_few(labels)}: {reason}", subsequent="  ")
        for reason, labels in by_obstacle.items()
    ]
    return "\n".join([table_text(table), *reasons]).rstrip()


def variant_text(variant: VariantPlan) -> str:
    """Return one variant with its drives and the commands that build it."""
    spec = variant.spec
    facts = [
        ("layout", f"{spec.label}: {layout_text(spec)}"),
        ("capacity", _size(variant.holds_bytes)),
        ("tolerates", variant.survives),
        *(_roles(variant.assigned) if variant.assigned else ()),
        ("available", variant.obstacle or "yes"),
    ]
    return "\n".join([_facts_text(facts), *([""] if variant.commands else []), *variant.commands])


def standing_text(standing: StandingLayout) -> str:
    """Return a standing layout with its location and facts."""
    spec = standing.spec
    exists = standing.is_there()
    facts = [
        ("layout", f"{spec.label}: {layout_text(spec)}"),
        ("location", ", ".join(standing.paths) if exists else _GONE),
        *_roles(standing.assigned),
        ("built", _built_text(standing)),
        *standing.facts.items(),
        ("aligned", " ".join(standing.misaligned) or "yes: drives, array and file system"),
        (
            "measure",
            f"{program.called()} run {standing.paths[0]}" if exists and standing.folders else "",
        ),
        ("remove", f"{program.called()} layout destroy {standing.run_id}"),
    ]
    return _facts_text([(name, text) for name, text in facts if text])


def _roles(roles: DriveRoles) -> Iterator[tuple[str, str]]:
    for number, leg in enumerate(roles.legs, start=1):
        yield (f"leg {number}" if len(roles.legs) > 1 else "drives"), " ".join(leg)
        if spares := roles.spares[number - 1]:
            yield "spares", " ".join(spares)
    for name, drives in (("logs", roles.logs), ("caches", roles.caches)):
        if drives:
            yield name, " ".join(drives)


def _built_text(standing: StandingLayout) -> str:
    text = f"{moment(standing.built_at)}, in {format_duration_s(standing.built_s)}"
    if standing.synced_s < _SYNC_SHOWN_FROM_S:
        return text
    return f"{text}, then synchronised for {format_duration_s(standing.synced_s)}"


def _drives(spec: LayoutSpec) -> str:
    """Return the number of drives of a variant: ``4``, ``2x4``, with other drives ``2x4+1``."""
    legs = f"{spec.legs}x" if spec.legs > 1 else ""
    others = "".join(f"+{count}" for count in (spec.spares, spec.logs, spec.caches) if count)
    return f"{legs}{spec.drives}{others}"


def _size(size_bytes: int | None) -> str:
    return NO_FIGURE if size_bytes is None else format_size(size_bytes)


def _few(labels: Sequence[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{labels[0]} to {labels[-1]} ({len(labels)})"


def _facts_text(facts: Sequence[tuple[str, str]]) -> str:
    """Return facts as lines, with their texts aligned in a column."""
    indent = max(_INDENT_MIN, *(len(name) + 2 for name, _text in facts))
    return "\n".join(wrapped(text, name.ljust(indent)) for name, text in facts)
