"""Consistency checks between the keys of a study, beyond the type of each key.

Each check yields a ``ConstraintError`` with a path from the top of the file; the loader reports the
first one with file and line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from seatrial.study.cell import NAME, NAME_RULE
from seatrial.study.hosts import check_hosts
from seatrial.study.layouts.check import drives, failures, layouts
from seatrial.study.problems import ConstraintError, no_effect, suggestion
from seatrial.study.sampled import SampledWorkload
from seatrial.study.schema import DeviceModel, Study
from seatrial.study.selection import labels_by_name
from seatrial.study.values import many
from seatrial.topic import topic_of, topics

Check = Callable[[Study], Iterator[ConstraintError]]


def check(study: Study) -> Iterator[ConstraintError]:
    """Yield all violations of constraints between the keys of a study."""
    for each in _CHECKS:
        yield from each(study)


def _rounds(study: Study) -> Iterator[ConstraintError]:
    rounds = study.rounds
    if rounds.min > rounds.max:
        yield ConstraintError(
            f"is {rounds.min}, larger than rounds.max ({rounds.max})",
            "Expected at most the value of rounds.max",
            "rounds",
            "min",
        )


def _targets(study: Study) -> Iterator[ConstraintError]:
    if not study.targets:
        yield ConstraintError(
            "is an empty list", "Define at least one [[target]], or omit target", "target"
        )
    for index, target in enumerate(study.targets):
        path = ("target", index)
        if not NAME.fullmatch(target.label):
            yield ConstraintError(f"is {target.label!r}", NAME_RULE, *path, "label")
        if target.model != DeviceModel() and target.kind != "simulated":
            yield ConstraintError(
                f"is set, but the target's kind is {target.kind!r}",
                "Only a simulated target has a model",
                *path,
                "model",
            )
    yield from twice((target.label for target in study.targets), "target", "label")


def _names(study: Study) -> Iterator[ConstraintError]:
    labels = labels_by_name(study)
    for index, workload in enumerate(study.workloads):
        if not NAME.fullmatch(workload.label):
            yield ConstraintError(f"is {workload.name!r}", NAME_RULE, "workload", index, "name")
        for nth, label in enumerate(workload.targets):
            if label not in labels:
                where = ("workload", index, "targets", nth)
                yield ConstraintError(
                    f"is {label!r}, which is not the label of a target",
                    suggestion(label, labels),
                    *where,
                )
    yield from twice((workload.label for workload in study.workloads), "workload", "name")


def twice(names: Iterable[str], table: str, key: str) -> Iterator[ConstraintError]:
    """Yield the tables with the same name as an earlier table of the list."""
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in seen:
            yield ConstraintError(
                f"is {name!r}; {table}[{seen[name]}] has the same {key}",
                f"Use a different {key} for each {table}",
                table,
                index,
                key,
            )
        seen.setdefault(name, index)


def _workloads(study: Study) -> Iterator[ConstraintError]:
    for index, workload in enumerate(study.workloads):
        for found in (*repeated(workload), *_needed(workload)):
            yield ConstraintError(found.seen, found.expected, "workload", index, *found.path)


def repeated(workload: SampledWorkload) -> Iterator[ConstraintError]:
    """Yield lists with duplicate values, which would create the same cell twice."""
    for attribute, key in keys_of(workload):
        values = getattr(workload, attribute)
        if isinstance(values, list | tuple) and len(set(values)) < len(values):
            twice = next(value for value in values if values.count(value) > 1)
            yield ConstraintError(f"holds {twice!r} twice", "List each value once", key)


def keys_of(workload: SampledWorkload) -> list[tuple[str, str]]:
    """Return the attribute and the key in the file for every field of a workload."""
    names = zip(workload.__struct_fields__, workload.__struct_encode_fields__, strict=True)
    return list(names)


_Dependences = tuple[tuple[str, str, str, tuple[str, ...]], ...]

_SCHEDULES: Final = ("fixed", "poisson", "bursts", "batches")
_TOGETHER: Final = ("bursts", "batches")
_NEEDED: Final[_Dependences] = (
    ("rate_per_s", "rate", "arrival", _SCHEDULES),
    ("burst", "burst", "arrival", _TOGETHER),
    ("stride_bytes", "stride", "pattern", ("strided",)),
)
"""Attribute and key that are required with these values of another key, and invalid otherwise."""

_MODIFIERS: Final[_Dependences] = (
    ("theta", "theta", "pattern", ("zipf",)),
    ("over_provisioning_share", "over_provisioning_share", "pattern", ("one_pass",)),
    ("hot_share", "hot_share", "pattern", ("hot_cold",)),
    ("hot_access_share", "hot_access_share", "pattern", ("hot_cold",)),
    ("read_share", "read_share", "operations", ("mixed",)),
    ("sync_every", "sync_every", "operations", ("write", "mixed")),
    ("compressible_share", "compressible_share", "data", ("compressible",)),
)
"""Attribute and key with a default that have an effect only with these values of another key."""


def _needed(workload: SampledWorkload) -> Iterator[ConstraintError]:
    """Yield keys that are missing, and keys that would have no effect."""
    owned = set(workload.__struct_fields__)
    for attribute, key, having, values in _NEEDED:
        is_sought = workload.SEEKS_RATE and having == "arrival"
        if not {attribute, having} <= owned or is_sought:
            continue
        given = getattr(workload, attribute) is not None
        wanted = [value for value in many(getattr(workload, having)) if value in values]
        if wanted and not given:
            yield ConstraintError(
                f"has no {key!r}", f"{having} = {wanted[0]!r} requires the key {key!r}"
            )
        if given and not wanted:
            yield _without_effect(key, having, values)
    for attribute, key, having, values in _MODIFIERS:
        if not {attribute, having} <= owned:
            continue
        is_changed = many(getattr(workload, attribute)) != many(default_of(workload, attribute))
        if is_changed and not any(value in values for value in many(getattr(workload, having))):
            yield _without_effect(key, having, values)


def default_of(workload: SampledWorkload, attribute: str) -> object:
    """Return the default of an attribute without a default factory."""
    fields = workload.__struct_fields__
    defaults = workload.__struct_defaults__
    return defaults[fields.index(attribute) - len(fields) + len(defaults)]


def _without_effect(key: str, having: str, values: tuple[str, ...]) -> ConstraintError:
    """Return the violation for a key that has no effect."""
    right = " or ".join(f"{having} = {value!r}" for value in values)
    return no_effect(f"It applies only with {right}", key)


def _thresholds(study: Study) -> Iterator[ConstraintError]:
    names = [workload.label for workload in study.workloads]
    for threshold in study.thresholds:
        if threshold.workload not in names:
            yield ConstraintError(
                f"refers to {threshold.workload!r}, which is not the name of a workload",
                suggestion(threshold.workload, names),
                "thresholds",
                threshold.name,
            )
            continue
        workload = study.workloads[names.index(threshold.workload)]
        if expected := topic_of(workload).substitute_for_quantity(threshold.quantity, workload):
            yield ConstraintError(
                f"refers to {threshold.quantity!r}", expected, "thresholds", threshold.name
            )


def _hosts(study: Study) -> Iterator[ConstraintError]:
    yield from check_hosts(study.hosts)
    for index, workload in enumerate(study.workloads if study.hosts else ()):
        if obstacle := topic_of(workload).why_single_host(workload):
            yield ConstraintError(
                f"cannot be measured by several hosts: {obstacle}",
                "Remove [hosts], or this workload",
                "workload",
                index,
            )


def _topics(study: Study) -> Iterator[ConstraintError]:
    for topic in topics():
        yield from topic.check(study)


_CHECKS: Final[tuple[Check, ...]] = (
    _rounds,
    _targets,
    layouts,
    drives,
    _names,
    failures,
    _workloads,
    _topics,
    _hosts,
    _thresholds,
)
