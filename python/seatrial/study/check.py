"""What must hold between the keys of a study, beyond the type of each.

Each check yields what it finds as a ``MisfitError`` whose path starts at the top of the file; the
loader says the first of them with file and line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from seatrial.study.access import CLASSIC, AccessLine
from seatrial.study.layouts.check import databases_on_layouts, drives, layouts
from seatrial.study.layouts.check_failures import failures
from seatrial.study.names import NAME, NAME_RULE
from seatrial.study.problems import MisfitError, suggestion
from seatrial.study.sampled import Sampled
from seatrial.study.schema import Study
from seatrial.study.selection import labels_by_name, labels_of
from seatrial.study.simulated import DeviceModel
from seatrial.study.values import many, only
from seatrial.trials.database.study.check import database_targets, database_workloads
from seatrial.trials.database.study.workloads import Batch, OnDatabase
from seatrial.trials.io.study.workloads import (
    Commit,
    Copy,
    Fill,
    Loadline,
    Map,
    Matrix,
    Mix,
    Patterned,
    Sequential,
    WorkloadBase,
)
from seatrial.trials.loadline.study import LATENCY_EXPECTED, SAMPLES_MIN, parse_latency_ns

Check = Callable[[Study], Iterator[MisfitError]]


def check(study: Study) -> Iterator[MisfitError]:
    """Yield everything that does not hold between the keys of a study."""
    for each in _CHECKS:
        yield from each(study)


def _rounds(study: Study) -> Iterator[MisfitError]:
    rounds = study.rounds
    if rounds.min > rounds.max:
        yield MisfitError(
            f"is {rounds.min}, more than rounds.max, which is {rounds.max}",
            "Expected at most rounds.max",
            "rounds",
            "min",
        )


def _targets(study: Study) -> Iterator[MisfitError]:
    if not study.targets:
        yield MisfitError(
            "is an empty list", "Expected at least one [[target]], or none named", "target"
        )
    for index, target in enumerate(study.targets):
        place = ("target", index)
        if not NAME.fullmatch(target.label):
            yield MisfitError(f"is {target.label!r}", NAME_RULE, *place, "label")
        if target.model != DeviceModel() and target.kind != "simulated":
            yield MisfitError(
                f"is given, but the target's kind is {target.kind!r}",
                "Only a simulated target has a model",
                *place,
                "model",
            )
    yield from _twice((target.label for target in study.targets), "target", "label")


def _names(study: Study) -> Iterator[MisfitError]:
    labels = labels_by_name(study)
    for index, workload in enumerate(study.workloads):
        if not NAME.fullmatch(workload.label):
            yield MisfitError(f"is {workload.name!r}", NAME_RULE, "workload", index, "name")
        for nth, label in enumerate(workload.targets):
            if label not in labels:
                where = ("workload", index, "targets", nth)
                yield MisfitError(
                    f"is {label!r}, no target's label", suggestion(label, labels), *where
                )
    yield from _twice((workload.label for workload in study.workloads), "workload", "name")


def _twice(names: Iterable[str], table: str, key: str) -> Iterator[MisfitError]:
    """Yield the tables whose name an earlier table of the list bears."""
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in seen:
            yield MisfitError(
                f"is {name!r}, as is {table}[{seen[name]}].{key}",
                f"Give each {table} a {key} of its own",
                table,
                index,
                key,
            )
        seen.setdefault(name, index)


def _accesses(study: Study) -> Iterator[MisfitError]:
    for index, access in enumerate(study.accesses):
        place = ("access", index)
        if not NAME.fullmatch(access.name):
            yield MisfitError(f"is {access.name!r}", NAME_RULE, *place, "name")
        if access.name in CLASSIC:
            yield MisfitError(
                f"is {access.name!r}, which seatrial defines itself",
                "Give it another name, so that results stay comparable",
                *place,
                "name",
            )
        for nth, line in enumerate(access.lines):
            yield from _line(line, *place, "lines", nth)
    yield from _twice((access.name for access in study.accesses), "access", "name")


def _line(line: AccessLine, *place: str | int) -> Iterator[MisfitError]:
    """Yield what does not hold in one line of an access specification."""
    if (line.size_bytes is None) == (line.sizes is None):
        seen = "has both 'size' and 'sizes'" if line.sizes else "has no 'size'"
        yield MisfitError(seen, "Each line has either 'size' or a list 'sizes'", *place)
    for size in line.distribution():
        if line.random > 0 and size.size_bytes % (line.align_bytes or 1):
            yield MisfitError(
                f"is {line.align_bytes} bytes, which does not divide the size {size.size_bytes}",
                "Random requests are whole multiples of what they are aligned to",
                *place,
                "align",
            )


def _workloads(study: Study) -> Iterator[MisfitError]:
    known = [*CLASSIC, *(access.name for access in study.accesses)]
    for index, workload in enumerate(study.workloads):
        place = ("workload", index)
        own = _named(workload, known) if isinstance(workload, WorkloadBase) else ()
        for found in (*_repeated(workload), *_needed(workload), *own):
            yield MisfitError(found.seen, found.expected, *place, *found.path)


def _repeated(workload: Sampled) -> Iterator[MisfitError]:
    """Yield the lists that hold a value twice: they would make the same cell twice."""
    for attribute, key in _keys(workload):
        values = getattr(workload, attribute)
        if isinstance(values, list | tuple) and len(set(values)) < len(values):
            twice = next(value for value in values if values.count(value) > 1)
            yield MisfitError(f"holds {twice!r} twice", "Expected each value once", key)


def _keys(workload: Sampled) -> list[tuple[str, str]]:
    """Return attribute and key of the file of everything that a workload declares."""
    names = zip(workload.__struct_fields__, workload.__struct_encode_fields__, strict=True)
    return list(names)


_Dependences = tuple[tuple[str, str, str, tuple[str, ...]], ...]

_SCHEDULES: Final = ("fixed", "poisson", "bursts")
_NEEDED: Final[_Dependences] = (
    ("rate_per_s", "rate", "arrival", _SCHEDULES),
    ("burst", "burst", "arrival", ("bursts",)),
    ("stride_bytes", "stride", "pattern", ("strided",)),
)
"""Attribute and key that must be given with these values of another key, and only then."""

_MODIFIERS: Final[_Dependences] = (
    ("theta", "theta", "pattern", ("zipf",)),
    ("over_provisioning_share", "over_provisioning_share", "pattern", ("one_pass",)),
    ("hot_share", "hot_share", "pattern", ("hot_cold",)),
    ("hot_access_share", "hot_access_share", "pattern", ("hot_cold",)),
    ("read_share", "read_share", "operations", ("mixed",)),
    ("sync_every", "sync_every", "operations", ("write", "mixed")),
    ("compressible_share", "compressible_share", "data", ("compressible",)),
)
"""Attribute and key with a default that have an effect only with these values of another."""


def _needed(workload: Sampled) -> Iterator[MisfitError]:
    """Yield keys that are missing beside another, and keys that would have no effect."""
    owned = set(workload.__struct_fields__)
    for attribute, key, having, values in _NEEDED:
        is_sought = isinstance(workload, Loadline) and having == "arrival"
        if not {attribute, having} <= owned or is_sought:
            continue
        given = getattr(workload, attribute) is not None
        wanted = [value for value in many(getattr(workload, having)) if value in values]
        if wanted and not given:
            yield MisfitError(f"has no {key!r}", f"{having} = {wanted[0]!r} needs the key {key!r}")
        if given and not wanted:
            yield _without_effect(key, having, values)
    for attribute, key, having, values in _MODIFIERS:
        if not {attribute, having} <= owned:
            continue
        is_changed = many(getattr(workload, attribute)) != many(_default(workload, attribute))
        if is_changed and not any(value in values for value in many(getattr(workload, having))):
            yield _without_effect(key, having, values)


def _default(workload: Sampled, attribute: str) -> object:
    """Return the default of an attribute that has a plain one."""
    fields = workload.__struct_fields__
    defaults = workload.__struct_defaults__
    return defaults[fields.index(attribute) - len(fields) + len(defaults)]


def _without_effect(key: str, having: str, values: tuple[str, ...]) -> MisfitError:
    """Return the misfit of a key that nothing would heed."""
    right = " or ".join(f"{having} = {value!r}" for value in values)
    return MisfitError("has no effect here", f"It belongs to {right}", key)


def _named(workload: WorkloadBase, accesses: list[str]) -> Iterator[MisfitError]:
    """Yield names within a workload that nothing bears, or that cannot be names."""
    if isinstance(workload, Mix):
        for index, name in enumerate(many(workload.accesses)):
            if name not in accesses:
                path = ("accesses", index) if isinstance(workload.accesses, list) else ("accesses",)
                yield MisfitError(
                    f"is {name!r}, no access specification", suggestion(name, accesses), *path
                )
    if isinstance(workload, Sequential):
        for name in workload.files:
            if not NAME.fullmatch(name):
                yield MisfitError(f"is named {name!r}", NAME_RULE, "files", name)
    is_one_pass = isinstance(workload, Fill) and workload.pattern == "one_pass"
    if is_one_pass and "verifiable" in many(workload.data):
        yield MisfitError(
            "is 'verifiable'", "A one-pass fill keeps no ledger; fill sequentially", "data"
        )
    if workload.verify and not only(workload.data, "verifiable"):
        yield MisfitError("is true", "verify needs data = 'verifiable'", "verify")


def _adaptive(study: Study) -> Iterator[MisfitError]:
    """Yield what no model describes, in matrices of which cells are to be predicted."""
    for index, workload in enumerate(study.workloads):
        if not isinstance(workload, Matrix):
            continue
        if not workload.adaptive:
            if workload.predicted_within != _default(workload, "predicted_within"):
                expected = "It belongs to adaptive = true"
                place = ("workload", index, "predicted_within")
                yield MisfitError("has no effect here", expected, *place)
            continue
        reads_or_writes = [each for each in many(workload.operations) if each != "mixed"]
        if (
            len(reads_or_writes) < len(many(workload.operations))
            or not only(workload.pattern, "random")
            or not only(workload.arrival, "closed")
        ):
            yield MisfitError(
                "is true",
                "Only random reads or writes in a closed loop are predicted from each other",
                "workload",
                index,
                "adaptive",
            )


def _load_lines(study: Study) -> Iterator[MisfitError]:
    """Yield what a load line cannot have, and limits that are none."""
    for index, workload in enumerate(study.workloads):
        if not isinstance(workload, Loadline):
            continue
        place = ("workload", index)
        for attribute, key in (("rate_per_s", "rate"), ("burst", "burst")):
            if getattr(workload, attribute) is not None:
                yield MisfitError(
                    "has no effect here", "A load line seeks its rates itself", *place, key
                )
        for attribute, key in _keys(workload):
            values = getattr(workload, attribute)
            if attribute != "targets" and isinstance(values, list | tuple) and len(values) > 1:
                yield MisfitError(
                    f"holds {len(values)} values",
                    "A load line has one value of each; give each a [[workload]] of its own",
                    *place,
                    key,
                )
        try:
            parse_latency_ns(workload.limit)
        except ValueError as error:
            expected = f"Expected {LATENCY_EXPECTED}"
            yield MisfitError(f"is wrong: {error}", expected, *place, "limit")
        if workload.budget_s < workload.duration_s * SAMPLES_MIN:
            yield MisfitError(
                f"is {workload.budget_s:g}, less than {SAMPLES_MIN} samples of "
                f"{workload.duration_s:g} s",
                "The rates around the boundary are measured again and again",
                *place,
                "budget_seconds",
            )


def _io_workloads(study: Study) -> Iterator[tuple[int, WorkloadBase]]:
    """Yield place and workload of those that the engine makes the requests of."""
    for index, workload in enumerate(study.workloads):
        if isinstance(workload, WorkloadBase):
            yield index, workload


def _verifying(study: Study) -> Iterator[MisfitError]:
    """Yield the workloads whose writes would spoil what another workload checks."""
    checked = [each for _, each in _io_workloads(study) if each.verify]
    for index, workload in _io_workloads(study):
        if not writes_trial_file(workload) or only(workload.data, "verifiable"):
            continue
        for reader in checked:
            if not labels_of(reader, study).isdisjoint(labels_of(workload, study)):
                yield MisfitError(
                    f"is {workload.data!r}, but workload {reader.label!r} verifies the same file",
                    "Expected data = 'verifiable' in everything that writes it",
                    "workload",
                    index,
                    "data",
                )
                break


def _keeping(study: Study) -> Iterator[MisfitError]:
    """Yield the workloads that would have a target keep data which keeps none."""
    for index, workload in _io_workloads(study):
        if "verifiable" not in many(workload.data):
            continue
        for target in study.targets:
            if target.label in labels_of(workload, study) and target.kind in ("null", "simulated"):
                yield MisfitError(
                    f"is 'verifiable', on target {target.label!r}",
                    f"A {target.kind} target keeps no data; run it on others with 'targets'",
                    "workload",
                    index,
                    "data",
                )


def writes_trial_file(workload: WorkloadBase) -> bool:
    """Return whether a workload writes to the trial file itself, by its declaration."""
    if isinstance(workload, Copy | Commit):
        return False
    if isinstance(workload, Patterned | Sequential | Map):
        return not only(workload.operations, "read")
    return True


def _thresholds(study: Study) -> Iterator[MisfitError]:
    names = [workload.label for workload in study.workloads]
    for threshold in study.thresholds:
        if threshold.workload not in names:
            yield MisfitError(
                f"speaks of {threshold.workload!r}, no workload's name",
                suggestion(threshold.workload, names),
                "thresholds",
                threshold.name,
            )
            continue
        workload = study.workloads[names.index(threshold.workload)]
        if expected := _unfit(threshold.quantity, workload):
            yield MisfitError(
                f"speaks of {threshold.quantity!r}", expected, "thresholds", threshold.name
            )


def _unfit(quantity: str, workload: Sampled) -> str:
    """Return what a workload has instead of a quantity that it has not; empty where it has it."""
    counted = ("stalls", "stall_max", "errors")
    if isinstance(workload, Loadline):
        # Its samples break the limit of latency on purpose.
        wanted = quantity in ("sustained", *counted)
        return "" if wanted else "A load line keeps to sustained_per_s, stalls or errors"
    if quantity == "sustained":
        return "Only a load line is asked for it; no other workload has sustained_per_s"
    if isinstance(workload, Batch):
        wanted = quantity in ("real", *counted)
        return "" if wanted else "A batch keeps to real_s, or to errors"
    if quantity == "real":
        return "Only a batch has a real time; others have p99_ms and the like"
    if isinstance(workload, OnDatabase):
        wanted = quantity not in ("iops", "bandwidth")
        return "" if wanted else "A database has tps, and response times such as p99_ms"
    return "Only a database has tps; others have iops" if quantity == "tps" else ""


_CHECKS: Final[tuple[Check, ...]] = (
    _rounds,
    _targets,
    layouts,
    drives,
    _names,
    failures,
    _accesses,
    _workloads,
    _adaptive,
    _load_lines,
    _verifying,
    _keeping,
    database_targets,
    database_workloads,
    databases_on_layouts,
    _thresholds,
)
