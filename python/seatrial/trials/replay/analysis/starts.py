"""Whether all samples of a replay began with the same data: their recorded starts, compared."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from seatrial.results.model import Sample
from seatrial.results.start import StartRecord
from seatrial.stats.wording import format_count, format_plural
from seatrial.trials.replay.analysis.samples import played

RESTORE_BYTES_MIN: Final = 512
"""Whatever brings rows back writes more log; a command that does nothing leaves less."""
ESTIMATE_SHARE: Final = 0.1
"""Two runs of ANALYZE over the same rows differ by less."""


class StartDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a sample did not begin with as the first of its kind did.

    Attributes:
        sample: That began otherwise.
        first: That it is held against.
        what: ``rows`` of a table that was counted, ``contents`` of one that has as many, but
            others, ``rows_estimated`` of one that was not counted, ``sequence`` (its next value),
            ``checkpoint`` (the last one of copied files), ``source`` (rows written to the
            database that is copied), or ``restore`` (bytes of log that the user's command wrote,
            against those that the replay before it did).
        name: Of the table or sequence; else empty.
        expected: What the first began with; None where it had none.
        found: What this one began with; likewise.
    """

    sample: Sample
    first: Sample
    what: str
    name: str
    expected: float | str | None
    found: float | str | None


def start_differences(samples: Iterable[Sample]) -> list[StartDifference]:
    """Return what differs between the starts of samples that should have begun alike.

    These play with the same data in the same schema, whatever their target and other factors. Data
    that go on from sample to sample, as ``clone = "reuse"`` asks for, are not expected to be alike.

    Args:
        samples: Of one run.
    """
    alike: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        if _start(sample) is not None and not _goes_on(sample):
            alike[_begins_with(sample)].append(sample)
    found: list[StartDifference] = []
    for group in alike.values():
        ordered = sorted(group, key=lambda each: (each.round, each.position))
        for sample in ordered[1:]:
            found += _between(ordered, sample)
    return found


def sides_differ(before: Sequence[Sample], after: Sequence[Sample]) -> list[StartDifference]:
    """Return what the samples of two sides began with otherwise than the first of them.

    Sides of different schemas are not expected to begin alike, nor are data that go on from sample
    to sample. Checkpoints are not compared: two loads of the same dump have their own.
    """
    ordered = [
        sample
        for side in (before, after)
        for sample in sorted(side, key=lambda each: (each.round, each.position))
        if _start(sample) is not None and not _goes_on(sample)
    ]
    schemas = {_schema(sample) for sample in (*before, *after)}
    if len(schemas) > 1:
        return []
    return [each for sample in ordered[1:] for each in _between_two(ordered[0], sample)]


def _schema(sample: Sample) -> tuple[str, str]:
    load = sample.cell.spec.get("database", {}).get("load") or {}
    return str(played(sample.cell).get("schema") or ""), str(load.get("migrate") or "")


def _start(sample: Sample) -> StartRecord | None:
    return sample.database.start if sample.database else None


def _goes_on(sample: Sample) -> bool:
    reported = sample.cell.spec.get("database", {})
    return reported.get("clone") == "reuse" and not played(sample.cell).get("read_only")


def _begins_with(sample: Sample) -> str:
    """Return what a sample was meant to begin with, as a key."""
    reported = sample.cell.spec.get("database", {})
    replay = played(sample.cell)
    meant = [reported.get("load"), replay.get("schema"), replay.get("identity")]
    return json.dumps(meant, sort_keys=True)


def _between(ordered: Sequence[Sample], sample: Sample) -> Iterator[StartDifference]:
    """Yield what a sample began with otherwise than the first, or than its target's first."""
    own = next(each for each in ordered if each.cell.target == sample.cell.target)
    yield from _between_two(ordered[0], sample)
    if own is not ordered[0] and _is_scripted(sample):
        yield from _contents(own, sample)
    yield from _unrestored(ordered, sample)
    expected, found = _start(own), _start(sample)
    if expected is None or found is None:
        return
    before, now = expected.source_rows_written, found.source_rows_written
    if before is not None and now is not None and now > before:
        yield StartDifference(
            sample=sample, first=own, what="source", name="", expected=before, found=now
        )
    # Two loads of the same dump end at different places of their logs; copies of one do not.
    places = expected.checkpoint_lsn, found.checkpoint_lsn
    if all(places) and places[0] != places[1]:
        yield StartDifference(
            sample=sample,
            first=own,
            what="checkpoint",
            name="",
            expected=places[0],
            found=places[1],
        )


def _between_two(first: Sample, sample: Sample) -> Iterator[StartDifference]:
    expected, found = _start(first), _start(sample)
    if expected is None or found is None:
        return
    for what, reported, seen in (
        ("rows", expected.rows, found.rows),
        ("sequence", expected.sequences, found.sequences),
        ("rows_estimated", expected.rows_estimated, found.rows_estimated),
    ):
        for name, then, now in _differing(what, reported, seen, expected, found):
            yield StartDifference(
                sample=sample, first=first, what=what, name=name, expected=then, found=now
            )
    are_of_one_load = first.run_id == sample.run_id and first.cell.target == sample.cell.target
    if are_of_one_load or not _is_scripted(sample):
        yield from _contents(first, sample)


def _is_scripted(sample: Sample) -> bool:
    """Tell whether what was loaded came of SQL, which may write its own time or draw by chance."""
    load = sample.cell.spec.get("database", {}).get("load") or {}
    return load.get("kind") == "sql" or bool(load.get("migrate"))


def _contents(first: Sample, sample: Sample) -> Iterator[StartDifference]:
    """Yield tables that held as many rows, but other ones."""
    expected, found = _start(first), _start(sample)
    if expected is None or found is None:
        return
    for name in sorted(expected.contents.keys() & found.contents.keys()):
        then, now = expected.contents[name], found.contents[name]
        if then != now and expected.rows.get(name) == found.rows.get(name):
            yield StartDifference(
                sample=sample, first=first, what="contents", name=name, expected=then, found=now
            )


def _unrestored(ordered: Sequence[Sample], sample: Sample) -> Iterator[StartDifference]:
    """Yield that the user's command brought nothing back: it left the log where it stood.

    Where the contents of all tables were read, they tell it better.
    """
    earlier = [
        each
        for each in ordered
        if each.cell.target == sample.cell.target and each.started_at < sample.started_at
    ]
    found = _start(sample)
    before = _start(max(earlier, key=lambda each: each.started_at)) if earlier else None
    if found is None or before is None or not found.lsn_unrestored:
        return
    if not found.rows_estimated and found.rows.keys() == found.contents.keys():
        return
    places = [log_bytes(each) for each in (before.lsn, found.lsn_unrestored, found.lsn)]
    begin, end, restored = places
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


def log_bytes(place: str) -> int | None:
    """Return a place in the write-ahead log, such as ``0/5D0``, as bytes; None for none."""
    high, _, low = place.partition("/")
    try:
        return (int(high, 16) << 32) + int(low, 16)
    except ValueError:
        return None


def _differing(
    what: str,
    reported: Mapping[str, Any],
    seen: Mapping[str, Any],
    expected: StartRecord,
    found: StartRecord,
) -> Iterator[tuple[str, Any, Any]]:
    """Yield name and both values of what differs; what one of them could not look at does not."""
    for name in sorted(reported.keys() | seen.keys()):
        then, now = reported.get(name), seen.get(name)
        if name not in reported and _was_seen_otherwise(expected, name):
            continue
        if name not in seen and _was_seen_otherwise(found, name):
            continue
        if what == "rows_estimated" and _is_about(then, now):
            continue
        if then != now:
            yield name, then, now


def _was_seen_otherwise(start: StartRecord, name: str) -> bool:
    """Tell whether a start knows something by another way, or may not read it."""
    return name in start.unread or name in start.rows or name in start.rows_estimated


def _is_about(then: float | None, now: float | None) -> bool:
    """Tell whether two estimates are of the same; where ANALYZE never ran there is none."""
    if then is None or now is None:
        return True
    return math.isclose(then, now, rel_tol=ESTIMATE_SHARE, abs_tol=1.0)


def start_words(difference: StartDifference) -> str:
    """Return one difference as words: ``in round 2 on ssd public.orders had 7 rows, not 5``."""
    where = f"in round {difference.sample.round + 1} on {difference.sample.cell.target}"
    return f"{where} {_found_otherwise(difference)}"


def _found_otherwise(difference: StartDifference) -> str:
    name = difference.name
    then, now = difference.expected, difference.found
    is_missing = now is None or then is None
    if difference.what == "contents":
        return f"{name} held other values"
    if difference.what == "checkpoint":
        return f"the files' last checkpoint was at {now}, not at {then}"
    if is_missing:
        verb = "was missing" if now is None else "was there, and not at first"
        return f"{name} {verb}"
    return _counted_otherwise(difference, float(then or 0), float(now or 0))


def _counted_otherwise(difference: StartDifference, then: float, now: float) -> str:
    if difference.what == "source":
        return f"the database that is copied had been written to ({_rows(now - then)})"
    if difference.what == "restore":
        return (
            "the command that restores had brought nothing back: it wrote "
            f"{_count(now)} bytes of log, the replay before it {_count(then)}"
        )
    if difference.what == "sequence":
        return f"{difference.name} stood at {_count(now)}, not at {_count(then)}"
    about = "about " if difference.what == "rows_estimated" else ""
    return f"{difference.name} had {about}{_rows(now)}, not {about}{_count(then)}"


def _rows(count: float) -> str:
    return format_plural(round(count), "row")


def _count(count: float) -> str:
    return format_count(round(count))
