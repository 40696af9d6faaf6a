"""Constraints between the keys of a study of block I/O, beyond the type of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from seatrial.study.cell import NAME, NAME_RULE
from seatrial.study.check import default_of, twice
from seatrial.study.problems import ConstraintError, no_effect, suggestion
from seatrial.study.sampled import SampledWorkload
from seatrial.study.schema import CLASSIC, AccessLine, AccessSpecification, Study
from seatrial.study.selection import labels_of
from seatrial.study.values import many, only
from seatrial.trials.io.study.workloads import (
    Commit,
    Copy,
    Fill,
    Map,
    Matrix,
    Mix,
    Patterned,
    Sequential,
    WorkloadBase,
)


def check_io(study: Study) -> Iterator[ConstraintError]:
    """Yield violated constraints between the keys of block I/O."""
    yield from _accesses(study)
    known = [*CLASSIC, *(access.name for access in study.accesses)]
    streamed = {access.name for access in study.accesses if access.streams()}
    for index, workload in _io_workloads(study):
        for error in _name_errors(workload, known, streamed):
            yield ConstraintError(error.seen, error.expected, "workload", index, *error.path)
    for each in (_adaptive, _verifying, _keeping, _on_hosts):
        yield from each(study)


def _accesses(study: Study) -> Iterator[ConstraintError]:
    for index, access in enumerate(study.accesses):
        path = ("access", index)
        if not NAME.fullmatch(access.name):
            yield ConstraintError(f"is {access.name!r}", NAME_RULE, *path, "name")
        if access.name in CLASSIC:
            yield ConstraintError(
                f"is {access.name!r}, which seatrial defines itself",
                "Give it another name, so that results stay comparable",
                *path,
                "name",
            )
        for nth, line in enumerate(access.lines):
            yield from _line(line, *path, "lines", nth)
        yield from _streams(access, *path)
    yield from twice((access.name for access in study.accesses), "access", "name")


def _line(line: AccessLine, *path: str | int) -> Iterator[ConstraintError]:
    """Yield violated constraints in one line of an access specification."""
    if (line.size_bytes is None) == (line.sizes is None):
        seen = "has both 'size' and 'sizes'" if line.sizes else "has no 'size'"
        yield ConstraintError(seen, "Each line has either 'size' or a list 'sizes'", *path)
    for size in line.distribution():
        if line.random > 0 and size.size_bytes % (line.align_bytes or 1):
            yield ConstraintError(
                f"is {line.align_bytes} bytes, which does not divide the size {size.size_bytes}",
                "The size of a random request is a multiple of its alignment",
                *path,
                "align",
            )


def _streams(access: AccessSpecification, *path: str | int) -> Iterator[ConstraintError]:
    """Yield violated constraints of streams and of the keys that each needs."""
    streams = access.streams()
    if streams and len(streams) < len(access.lines):
        yield ConstraintError(
            "has a stream in some lines only",
            "Each line has a stream, or none has one",
            *path,
            "lines",
        )
    for nth, line in enumerate(access.lines):
        if line.stream is None:
            continue
        stream = line.stream
        for key, attribute in _KEYS_OF_ARRIVALS:
            needing, allowing = _ARRIVALS_WITH[key]
            is_given = getattr(stream, attribute) not in (None, False)
            if is_given != (stream.arrival in needing) and stream.arrival not in allowing:
                seen = "has no effect here" if is_given else "is missing"
                expected = f"It belongs to arrival = {' or '.join((*needing, *allowing))}"
                yield ConstraintError(seen, expected, *path, "lines", nth, "stream", key)
        if stream.arrival == "think" and stream.depth > (stream.burst or 1):
            yield ConstraintError(
                f"is {stream.depth}",
                "With arrival = think each thread has at most burst requests in flight",
                *(*path, "lines", nth, "stream", "depth"),
            )


_KEYS_OF_ARRIVALS: Final = (
    ("rate", "rate_per_s"),
    ("burst", "burst"),
    ("bursts", "bursts"),
    ("pause", "pause_s"),
    ("even_pauses", "even_pauses"),
)
_ARRIVALS_WITH: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "rate": (("fixed", "poisson", "batches", "poisson_bursts"), ()),
    "burst": (("batches",), ("think",)),
    "bursts": (("poisson_bursts",), ()),
    "pause": (("think",), ()),
    "even_pauses": ((), ("think",)),
}
"""Arrivals of a stream that need a key, and those that may have it."""


def _without_streams(workload: Mix, streamed: set[str]) -> Iterator[ConstraintError]:
    """Yield keys of a workload that the streams of its accesses already define."""
    if streamed.isdisjoint(many(workload.accesses)):
        return
    for attribute, key in _OF_STREAMS:
        if getattr(workload, attribute) != default_of(workload, attribute):
            yield no_effect("Each stream of the access specification has its own", key)


_OF_STREAMS: Final = (
    ("threads", "threads"),
    ("depths", "depths"),
    ("arrival", "arrival"),
    ("rate_per_s", "rate"),
    ("burst", "burst"),
    ("sync_every", "sync_every"),
)


def _name_errors(
    workload: WorkloadBase, accesses: list[str], streamed: set[str]
) -> Iterator[ConstraintError]:
    """Yield unknown or invalid names within a workload."""
    if isinstance(workload, Mix):
        for index, name in enumerate(many(workload.accesses)):
            if name not in accesses:
                path = ("accesses", index) if isinstance(workload.accesses, list) else ("accesses",)
                yield ConstraintError(
                    f"is {name!r}, no access specification", suggestion(name, accesses), *path
                )
        yield from _without_streams(workload, streamed)
    if isinstance(workload, Sequential):
        for name in workload.files:
            if not NAME.fullmatch(name):
                yield ConstraintError(f"is named {name!r}", NAME_RULE, "files", name)
    is_one_pass = isinstance(workload, Fill) and workload.pattern == "one_pass"
    if is_one_pass and "verifiable" in many(workload.data):
        yield ConstraintError(
            "is 'verifiable'", "A one-pass fill keeps no ledger; fill sequentially", "data"
        )
    if workload.verify and not only(workload.data, "verifiable"):
        yield ConstraintError("is true", "verify needs data = 'verifiable'", "verify")


def _adaptive(study: Study) -> Iterator[ConstraintError]:
    """Yield keys of adaptive matrices for which there is no model."""
    for index, workload in enumerate(study.workloads):
        if not isinstance(workload, Matrix):
            continue
        if not workload.adaptive:
            if workload.predicted_within != default_of(workload, "predicted_within"):
                path = ("workload", index, "predicted_within")
                yield no_effect("It belongs to adaptive = true", *path)
            continue
        reads_or_writes = [each for each in many(workload.operations) if each != "mixed"]
        if (
            len(reads_or_writes) < len(many(workload.operations))
            or not only(workload.pattern, "random")
            or not only(workload.arrival, "closed")
        ):
            yield ConstraintError(
                "is true",
                "Only random reads or writes in a closed loop are predicted from each other",
                "workload",
                index,
                "adaptive",
            )


def _io_workloads(study: Study) -> Iterator[tuple[int, WorkloadBase]]:
    """Yield index and workload of those whose requests the load engine makes."""
    for index, workload in enumerate(study.workloads):
        if isinstance(workload, WorkloadBase):
            yield index, workload


def _verifying(study: Study) -> Iterator[ConstraintError]:
    """Yield the workloads whose writes would corrupt what another workload checks."""
    checked = [each for _, each in _io_workloads(study) if each.verify]
    for index, workload in _io_workloads(study):
        if not writes_trial_file(workload) or only(workload.data, "verifiable"):
            continue
        for reader in checked:
            if not labels_of(reader, study).isdisjoint(labels_of(workload, study)):
                yield ConstraintError(
                    f"is {workload.data!r}, but workload {reader.label!r} verifies the same file",
                    "Expected data = 'verifiable' in everything that writes it",
                    "workload",
                    index,
                    "data",
                )
                break


def _keeping(study: Study) -> Iterator[ConstraintError]:
    """Yield workloads with verifiable data on a target that stores none."""
    for index, workload in _io_workloads(study):
        if "verifiable" not in many(workload.data):
            continue
        for target in study.targets:
            if target.label in labels_of(workload, study) and target.kind in ("null", "simulated"):
                yield ConstraintError(
                    f"is 'verifiable', on target {target.label!r}",
                    f"A {target.kind} target keeps no data; run it on others with 'targets'",
                    "workload",
                    index,
                    "data",
                )


def _on_hosts(study: Study) -> Iterator[ConstraintError]:
    """Yield mixes of which a stream has a schedule, in a study of several hosts."""
    scheduled = {
        access.name
        for access in study.accesses
        if any(stream.arrival not in ("closed", "think") for stream in access.streams())
    }
    for index, workload in _io_workloads(study) if study.hosts else ():
        if isinstance(workload, Mix) and scheduled.intersection(many(workload.accesses)):
            yield ConstraintError(
                "cannot be measured by several hosts: the arrivals of a stream are a schedule of "
                "one machine",
                "Remove [hosts], or this workload",
                "workload",
                index,
            )


def writes_trial_file(workload: WorkloadBase) -> bool:
    """Return whether a workload writes to the trial file itself, by its declaration."""
    if isinstance(workload, Copy | Commit):
        return False
    if isinstance(workload, Patterned | Sequential | Map):
        return not only(workload.operations, "read")
    return True


def why_single_host(workload: SampledWorkload) -> str:
    """Return why several hosts cannot measure a workload; empty if they can."""
    if workload.kind in ("fill", "copy"):
        return f"a {workload.kind} is made once"
    if any(value != "closed" for value in many(getattr(workload, "arrival", "closed"))):
        return "its arrivals are a schedule of one machine"
    if "verifiable" in many(getattr(workload, "data", "random")):
        return "the ledger of what was written is that of one machine"
    return ""
