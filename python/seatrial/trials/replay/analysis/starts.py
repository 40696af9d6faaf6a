"""Whether all samples of a replay started with the same data, by their recorded start states."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec

from seatrial.results.model import Sample, StartRecord
from seatrial.stats.wording import format_count, format_plural
from seatrial.trials.replay.analysis.model import played

if TYPE_CHECKING:
    from seatrial.findings.model import Summary

RESTORE_BYTES_MIN: Final = 512
"""A restore writes more WAL; a command that does nothing writes less."""
ESTIMATE_SHARE: Final = 0.1
"""Two runs of ANALYZE over the same rows differ by less."""


def starts_differ(summary: Summary) -> bool:
    """Return whether replays of a run certainly did not begin with the same data."""
    return any(
        finding.kind == "replay_starts_differ" and finding.severity == "critical"
        for finding in summary.findings
    )


class StartDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A difference between the start states of two samples.

    Attributes:
        sample: The sample that differs.
        first: The sample that it is compared with.
        what: ``rows`` of a table that was counted, ``contents`` of one with the same row count,
            ``rows_estimated`` of one that was not counted, ``sequence`` (its next value),
            ``checkpoint`` (the last one of copied files), ``source`` (rows written to the source
            database), or ``restore`` (bytes of WAL written by the user's command, compared with
            those of the replay before it).
        name: Name of the table or sequence; otherwise empty.
        expected: Value at the start of the first sample; None if it had none.
        found: Value at the start of this sample; likewise.
    """

    sample: Sample
    first: Sample
    what: str
    name: str
    expected: float | str | None
    found: float | str | None


def start_differences(samples: Iterable[Sample]) -> list[StartDifference]:
    """Return the differences between the starts of samples that should have the same data.

    These use the same data in the same schema, on any target and with any other factors. With
    ``clone = "reuse"`` each sample continues with the data of the previous one, so starts are not
    compared.

    Args:
        samples: Samples of one run.
    """
    groups: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        if _start(sample) is not None and not _continues(sample):
            groups[_start_key(sample)].append(sample)
    differences: list[StartDifference] = []
    for group in groups.values():
        ordered = sorted(group, key=lambda sample: (sample.round, sample.position))
        for sample in ordered[1:]:
            differences += _differences(ordered, sample)
    return differences


def sides_differ(before: Sequence[Sample], after: Sequence[Sample]) -> list[StartDifference]:
    """Return the differences of two sides' samples from the first of them.

    Sides with different schemas are not compared, nor are samples that continue with the data of
    the previous one. Checkpoints are not compared, since two loads of one dump have different ones.
    """
    ordered = [
        sample
        for side in (before, after)
        for sample in sorted(side, key=lambda sample: (sample.round, sample.position))
        if _start(sample) is not None and not _continues(sample)
    ]
    schemas = {_schema(sample) for sample in (*before, *after)}
    if len(schemas) > 1:
        return []
    return list(
        chain.from_iterable(_state_differences(ordered[0], sample) for sample in ordered[1:])
    )


def _schema(sample: Sample) -> tuple[str, str]:
    load = sample.cell.spec.get("database", {}).get("load") or {}
    return str(played(sample.cell).get("schema") or ""), str(load.get("migrate") or "")


def _start(sample: Sample) -> StartRecord | None:
    return sample.database.start if sample.database else None


def _continues(sample: Sample) -> bool:
    database = sample.cell.spec.get("database", {})
    return database.get("clone") == "reuse" and not played(sample.cell).get("read_only")


def _start_key(sample: Sample) -> str:
    """Return a key of the data that a sample should start with."""
    database = sample.cell.spec.get("database", {})
    replay = played(sample.cell)
    parts = [database.get("load"), replay.get("schema"), replay.get("identity")]
    return json.dumps(parts, sort_keys=True)


def _differences(ordered: Sequence[Sample], sample: Sample) -> Iterator[StartDifference]:
    """Yield a sample's differences from the first sample and from its target's first."""
    first_on_target = next(other for other in ordered if other.cell.target == sample.cell.target)
    yield from _state_differences(ordered[0], sample)
    if first_on_target is not ordered[0] and _is_scripted(sample):
        yield from _content_differences(first_on_target, sample)
    yield from _ineffective_restore(ordered, sample)
    expected, found = _start(first_on_target), _start(sample)
    if expected is None or found is None:
        return
    before, now = expected.source_rows_written, found.source_rows_written
    if before is not None and now is not None and now > before:
        yield StartDifference(
            sample=sample, first=first_on_target, what="source", name="", expected=before, found=now
        )
    # Two loads of the same dump end at different WAL positions; copies of one load do not.
    positions = expected.checkpoint_lsn, found.checkpoint_lsn
    if all(positions) and positions[0] != positions[1]:
        yield StartDifference(
            sample=sample,
            first=first_on_target,
            what="checkpoint",
            name="",
            expected=positions[0],
            found=positions[1],
        )


def _state_differences(first: Sample, sample: Sample) -> Iterator[StartDifference]:
    expected, found = _start(first), _start(sample)
    if expected is None or found is None:
        return
    for what, expected_values, found_values in (
        ("rows", expected.rows, found.rows),
        ("sequence", expected.sequences, found.sequences),
        ("rows_estimated", expected.rows_estimated, found.rows_estimated),
    ):
        for name, then, now in _differing_values(
            what, expected_values, found_values, expected, found
        ):
            yield StartDifference(
                sample=sample, first=first, what=what, name=name, expected=then, found=now
            )
    are_of_one_load = first.run_id == sample.run_id and first.cell.target == sample.cell.target
    if are_of_one_load or not _is_scripted(sample):
        yield from _content_differences(first, sample)


def _is_scripted(sample: Sample) -> bool:
    """Return whether the data were loaded by SQL, which may contain timestamps or random values."""
    load = sample.cell.spec.get("database", {}).get("load") or {}
    return load.get("kind") == "sql" or bool(load.get("migrate"))


def _content_differences(first: Sample, sample: Sample) -> Iterator[StartDifference]:
    """Yield tables with the same row count but other contents."""
    expected, found = _start(first), _start(sample)
    if expected is None or found is None:
        return
    for name in sorted(expected.contents.keys() & found.contents.keys()):
        then, now = expected.contents[name], found.contents[name]
        if then != now and expected.rows.get(name) == found.rows.get(name):
            yield StartDifference(
                sample=sample, first=first, what="contents", name=name, expected=then, found=now
            )


def _ineffective_restore(ordered: Sequence[Sample], sample: Sample) -> Iterator[StartDifference]:
    """Yield that the user's command restored nothing: it wrote almost no WAL.

    If the contents of all tables were read, they are used instead.
    """
    earlier = [
        other
        for other in ordered
        if other.cell.target == sample.cell.target and other.started_at < sample.started_at
    ]
    found = _start(sample)
    before = _start(max(earlier, key=lambda other: other.started_at)) if earlier else None
    if found is None or before is None or not found.lsn_unrestored:
        return
    if not found.rows_estimated and found.rows.keys() == found.contents.keys():
        return
    positions = [lsn_bytes(lsn) for lsn in (before.lsn, found.lsn_unrestored, found.lsn)]
    begin, end, restored = positions
    if begin is None or end is None or restored is None:
        return
    if end - begin > RESTORE_BYTES_MIN and 0 <= restored - end < RESTORE_BYTES_MIN:
        yield StartDifference(
            sample=sample,
            first=ordered[0],
            what="restore",
            name="",
            expected=end - begin,
            found=restored - end,
        )


def lsn_bytes(lsn: str) -> int | None:
    """Return a WAL position (LSN), such as ``0/5D0``, in bytes; None when invalid."""
    high, _, low = lsn.partition("/")
    try:
        return (int(high, 16) << 32) + int(low, 16)
    except ValueError:
        return None


def _differing_values(
    what: str,
    expected_values: Mapping[str, Any],
    found_values: Mapping[str, Any],
    expected: StartRecord,
    found: StartRecord,
) -> Iterator[tuple[str, Any, Any]]:
    """Yield name and both values of differences; values that one side could not read are none."""
    for name in sorted(expected_values.keys() | found_values.keys()):
        then, now = expected_values.get(name), found_values.get(name)
        if name not in expected_values and _has_another_reading(expected, name):
            continue
        if name not in found_values and _has_another_reading(found, name):
            continue
        if what == "rows_estimated" and _is_about(then, now):
            continue
        if then != now:
            yield name, then, now


def _has_another_reading(start: StartRecord, name: str) -> bool:
    """Return whether a start state has a value from another method, or may not read it."""
    return name in start.unread or name in start.rows or name in start.rows_estimated


def _is_about(then: float | None, now: float | None) -> bool:
    """Return whether two estimates agree; without ANALYZE there is no estimate."""
    if then is None or now is None:
        return True
    return math.isclose(then, now, rel_tol=ESTIMATE_SHARE, abs_tol=1.0)


def start_difference_text(difference: StartDifference) -> str:
    """Return one difference as words: ``in round 2 on ssd public.orders had 7 rows, not 5``."""
    where = f"in round {difference.sample.round + 1} on {difference.sample.cell.target}"
    return f"{where} {_difference_text(difference)}"


def _difference_text(difference: StartDifference) -> str:
    name = difference.name
    then, now = difference.expected, difference.found
    is_missing = now is None or then is None
    if difference.what == "contents":
        return f"{name} had other contents"
    if difference.what == "checkpoint":
        return f"the last checkpoint of the files was at {now}, not at {then}"
    if is_missing:
        verb = "was missing" if now is None else "existed, but not in the first sample"
        return f"{name} {verb}"
    return _count_difference_text(difference, float(then or 0), float(now or 0))


def _count_difference_text(difference: StartDifference, then: float, now: float) -> str:
    if difference.what == "source":
        return f"the source database had been written to ({_rows(now - then)})"
    if difference.what == "restore":
        return (
            f"the restore command did nothing: it wrote {_count(now)} bytes of WAL, the replay "
            f"before it {_count(then)}"
        )
    if difference.what == "sequence":
        return f"{difference.name} was at {_count(now)}, not at {_count(then)}"
    about = "about " if difference.what == "rows_estimated" else ""
    return f"{difference.name} had {about}{_rows(now)}, not {about}{_count(then)}"


def _rows(count: float) -> str:
    return format_plural(round(count), "row")


def _count(count: float) -> str:
    return format_count(round(count))
