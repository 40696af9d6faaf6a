"""IOmeter's configuration files (.icf) as a study: each access specification a workload ``mix``.

Taken over are the access specifications, the number of outstanding I/Os, the number of disk workers
and the run time. What Seatrial does differently is reported in a note; no value of a specification
is dropped silently. The notes are sentences without a full stop, as those of a plan are.

Source: IOmeter User's Guide, "Access Specifications" and the format that IOmeter 1.1 writes: a line
that begins with an apostrophe names the values of the lines below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from seatrial.errors import UsageError
from seatrial.importers.document import Document
from seatrial.importers.fio.jobs import JobStudy, unique_name
from seatrial.study.load import Table
from seatrial.units import SECTOR_BYTES

SPECIFICATIONS: Final = "'access specifications"
NAME_LINE: Final = "'access specification name"
FIELDS: Final = ("size", "% of size", "% reads", "% random", "delay", "burst", "align", "reply")
RUN_S_USUAL: Final = 10.0
_OUTSTANDING: Final = "'# of outstanding io"


def is_configuration(text: str) -> bool:
    """Return whether a text is a configuration file of IOmeter with access specifications."""
    lowered = text.lower()
    return SPECIFICATIONS in lowered and NAME_LINE in lowered


def study_of(document: Document) -> JobStudy:
    """Return the study of a configuration file.

    Raises:
        UsageError: The file is malformed, or has no access specification.
    """
    lines = [
        (number, line.strip()) for number, line in enumerate(document.text.splitlines(), start=1)
    ]
    notes: list[str] = []
    accesses = list(_specifications(document, lines, notes))
    if not accesses:
        raise UsageError(
            seen=f"{document.path} has no access specification that reads or writes",
            cause="Only specifications of disk workers can be measured",
            next_step="Add one in IOmeter, on its tab Access Specifications",
        )
    depth = max(1, _first(lines, "'number of outstanding io") or _first(lines, _OUTSTANDING))
    workers = max(1, sum(text.lower() == "'worker" for _, text in lines))
    notes.append("Targets are not imported: specify one with --target")
    return JobStudy(
        mapping={
            "name": unique_name(document.path.stem, [], "iometer"),
            "description": f"The access specifications of {document.name}",
            "target": [{"label": "trial"}],
            "workload": [
                {"kind": "fill"},
                *_workloads(accesses, _run_s(lines) or RUN_S_USUAL, depth, workers),
            ],
            "access": accesses,
        },
        notes=list(dict.fromkeys(notes)),
    )


def _workloads(
    accesses: Sequence[Table], seconds: float, depth: int, workers: int
) -> Iterator[Table]:
    """Yield workloads of accesses in a closed loop, and of those with pauses, completing these."""
    paused = []
    for access in accesses:
        stream = access["lines"][0].get("stream")
        if stream is not None:
            stream |= {"threads": workers, "depth": min(depth, stream["burst"])}
            paused.append(access["name"])
    unpaused = [access["name"] for access in accesses if access["name"] not in paused]
    if unpaused:
        closed = {"depths": depth, "threads": workers}
        yield {"kind": "mix", "accesses": unpaused, "seconds": seconds, **closed}
    if paused:
        yield {"kind": "mix", "name": "paused", "accesses": paused, "seconds": seconds}


def _specifications(
    document: Document, lines: Sequence[tuple[int, str]], notes: list[str]
) -> Iterator[Table]:
    """Yield the access specifications, each as a table ``[[access]]`` of a study."""
    name, taken = "", [""]
    rows: list[Table] = []
    expects = ""
    for number, text in [*lines, (0, "'END access specifications")]:
        lowered = text.lower()
        if lowered.startswith((NAME_LINE, "'end access specifications")):
            if rows:
                _pause(rows, name, notes)
                yield {"name": name, "lines": rows}
            rows, expects = [], "name" if lowered.startswith(NAME_LINE) else ""
        elif lowered.startswith("'size,"):
            _require_fields(document, number, text)
            expects = "row"
        elif text.startswith("'"):
            expects = ""
        elif expects == "name" and text:
            name = unique_name(text.rpartition(",")[0] or text, taken, "access")
            taken.append(name)
            expects = ""
        elif expects == "row" and text:
            rows.append(_row(document, number, text, name, notes))


def _require_fields(document: Document, number: int, text: str) -> None:
    fields = tuple(field.strip().lower() for field in text.lstrip("'").split(","))
    if fields != FIELDS:
        raise _malformed(document, number, f"the columns are {', '.join(fields)}", FIELDS)


def _row(document: Document, number: int, text: str, name: str, notes: list[str]) -> Table:
    """Return a line of an access specification."""
    try:
        size, share, reads, at_random, delay, burst, align, reply = (
            float(value) for value in text.split(",")
        )
    except ValueError:
        raise _malformed(document, number, f"{text!r} is not eight numbers", FIELDS) from None
    if not (size >= 1 and share > 0 and 0 <= reads <= 100 and 0 <= at_random <= 100):
        raise _malformed(document, number, f"{text!r} is out of range", FIELDS)
    if delay < 0 or burst < 0:
        raise _malformed(document, number, f"{text!r} is out of range", FIELDS)
    if not delay and burst > 1:
        notes.append(f"{name}: bursts of {burst:g} requests without a delay are not bursts")
    if reply:
        notes.append(f"{name}: replies are for network workers, and are not sent")
    row: Table = {
        "share": share,
        "size": int(size),
        "read": reads / 100,
        "random": at_random / 100,
    }
    if delay:
        row["stream"] = {
            **{"arrival": "think", "pause": delay / 1000, "even_pauses": True},
            "burst": max(1, int(burst)),
        }
    # 0 stands for sectors: any offset that a disk can address.
    alignment = int(align) or SECTOR_BYTES
    if int(size) % alignment == 0:
        row["align"] = alignment
    else:
        notes.append(
            f"{name}: requests of {int(size)} bytes cannot be aligned to {alignment} bytes; they "
            "are aligned to their size"
        )
    return row


def _pause(rows: Sequence[Table], name: str, notes: list[str]) -> None:
    """Drop delays of a specification of several lines, which the same workers would alternate."""
    if len(rows) == 1:
        return
    for row in rows:
        if stream := row.pop("stream", None):
            notes.append(
                f"{name}: the delay of {1000 * stream['pause']:g} ms after every "
                f"{stream['burst']:g} requests is ignored, as the specification has several lines"
            )


def _values_below(lines: Sequence[tuple[int, str]], heading: str) -> str:
    """Return the first line of values below a heading, which further headings may follow."""
    groups = groupby(lines, key=lambda line: line[1].startswith("'"))
    is_wanted = False
    for is_heading, group in groups:
        texts = [text for _, text in group if text]
        if is_heading:
            is_wanted = any(text.lower().startswith(heading) for text in texts)
        elif is_wanted and texts:
            return texts[0]
    return ""


def _run_s(lines: Sequence[tuple[int, str]]) -> float:
    """Return the run time in s; 0 if there is none."""
    parts = _values_below(lines, "'run time").split()
    try:
        hours, minutes, seconds = (float(part) for part in parts)
    except ValueError:
        return 0.0
    return hours * 3600 + minutes * 60 + seconds


def _first(lines: Sequence[tuple[int, str]], heading: str) -> int:
    """Return the first number below a heading; 0 if there is none."""
    value = _values_below(lines, heading).partition(",")[0].strip()
    return int(value) if value.isdigit() else 0


def _malformed(document: Document, number: int, seen: str, fields: Sequence[str]) -> UsageError:
    return UsageError(
        seen=f"{document.path}, line {number}: {seen}",
        cause=f"An access specification has {', '.join(fields)}",
        next_step="Correct the line, or save the file again in IOmeter",
    )
