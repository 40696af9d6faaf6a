"""Selects the targets of a workload by its key ``targets``.

A name is the label of a target, the name of a layout (all its variants), the label of a variant, or
the label of one of its legs.
"""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.study.layouts.layout import LayoutSpec, variants
from seatrial.study.model import PlannedTarget
from seatrial.study.sampled import SampledWorkload
from seatrial.study.schema import Study


def runs_on(workload: SampledWorkload, target: PlannedTarget) -> bool:
    """Return whether a workload is selected for a target."""
    names = {target.label}
    if target.layout:
        names |= {target.layout.label, target.layout.name}
    return not workload.targets or not names.isdisjoint(workload.targets)


def labels_by_name(study: Study) -> dict[str, set[str]]:
    """Return the labels of targets for every valid name in ``targets``."""
    meant = {target.label: {target.label} for target in study.targets}
    for spec in all_variants(study):
        for name in (spec.name, spec.label, *spec.target_labels):
            own = {name} if name in spec.target_labels else set(spec.target_labels)
            meant[name] = meant.get(name, set()) | own
    return meant


def labels_of(workload: SampledWorkload, study: Study) -> set[str]:
    """Return the labels of the targets of a workload."""
    meant = labels_by_name(study)
    names = workload.targets or list(meant)
    return set[str]().union(*(meant.get(name, set()) for name in names))


def all_variants(study: Study) -> Iterator[LayoutSpec]:
    """Yield every variant of every layout of a study, in order."""
    for layout in study.layouts:
        yield from variants(layout)


def variants_of(workload: SampledWorkload, study: Study) -> Iterator[LayoutSpec]:
    """Yield the variants that a workload runs on, directly or on their legs."""
    labels = labels_of(workload, study)
    for spec in all_variants(study):
        if not labels.isdisjoint(spec.target_labels):
            yield spec
