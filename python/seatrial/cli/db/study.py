"""From the options of ``seatrial db`` to a study: its targets, workloads, rounds and budget."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from seatrial.cli.io_command import without_none
from seatrial.errors import UsageError

Mapped = dict[str, Any]

QUICK_SCALE: Final = 25
"""About 400 MB of tables and indexes."""
QUICK_MEMORY: Final = "256MiB"
"""For the server, its shared buffers and the page cache of its files: less than the tables."""
QUICK_CLIENTS: Final = (1, 10)
QUICK_SECONDS: Final = 8.0
QUICK_BUDGET_S: Final = 150.0
"""For each target, loading not counted."""
QUICK_UNLESS: Final = ("scale", "clients", "seconds", "rounds", "budget_s", "memory_limit", "rate")
"""Whoever gives one of these has another trial in mind than the quick one."""

CRASHES: Final = 5
CRASH_SECONDS: Final = 3.0

TRUTH_SECONDS: Final = 0.25
TRUTH_FILE: Final = "64MiB"
TRUTH_LOG: Final = "16MiB"
TRUTH_BLOCK: Final = "8KiB"

OPTIONS_OF: Final[Mapping[str, frozenset[str]]] = {
    "pgbench": frozenset(
        {"clients", "processes", "scale", "script", "protocol", "rate", "latency_limit"}
        | {"start", "clone"}
    ),
    "telemetry": frozenset(
        {"clients", "processes", "devices", "history_hours", "batch_rows", "query_share", "rate"}
        | {"start", "clone"}
    ),
    "batch": frozenset({"processes", "scale", "prepare", "start", "clone"}),
    "crash": frozenset({"clients", "scale", "power_cut"}),
}
"""Options that only some kinds of workload have."""

KEY_OPTIONS: Final[Mapping[str, str]] = {
    "scripts": "script",
    "protocols": "protocol",
    "latency_limit_ms": "latency-limit",
    "settings": "set",
    "file": "batch",
    "kind": "crash",
}
"""Options whose name is not that of the study's key."""

_RENAMED: Final = {
    "script": "scripts",
    "protocol": "protocols",
    "latency_limit": "latency_limit_ms",
}
_LABELLED: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,63})=(.+)", re.DOTALL)
_NOT_A_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")
_LABEL_LENGTH_MAX: Final = 40
AGAIN: Final = "-aa"
"""Behind the label of a place that is measured twice."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a database is to be tried.

    Attributes:
        label: What cells call it.
        directory: Where the data of a server of ours lie; empty for a server that is there.
        url: Address of a server that is there, without a password; empty for a directory.
        is_again: Whether it is the first place once more, for the noise floor.
    """

    label: str
    directory: str = ""
    url: str = ""
    is_again: bool = False


def places_of(
    directories: Sequence[str], urls: Sequence[str], *, again: bool | None
) -> list[Place]:
    """Return the places of a trial; passwords in addresses are taken out.

    Args:
        directories: As the user named them, each perhaps as ``LABEL=DIR``; one that is an address
            is taken as one.
        urls: Addresses, each perhaps as ``LABEL=URL``.
        again: Whether the first place is measured as two; where there are several unless given.

    Raises:
        TargetError: when a directory does not exist.
        UsageError: when there is no place, or an address cannot be read.
    """
    from seatrial.cli.server_urls import servers_of  # noqa: PLC0415 - not for --help
    from seatrial.machine.resolve import resolve_directory  # noqa: PLC0415
    from seatrial.study.server_address import is_server_address  # noqa: PLC0415

    reported = [_label(word) for word in (*directories, *urls)]
    if not reported:
        raise UsageError(
            seen="No directory and no server is named",
            cause="A server of our own has its data in a directory; an existing one has an address",
            next_step="Name one, as in `seatrial db /mnt/ssd` or `seatrial db --url "
            "postgresql://HOST/DATABASE`",
        )
    are_urls = [is_server_address(word) for _, word in reported[: len(directories)]]
    are_urls += [True] * len(urls)
    marked = list(zip(reported, are_urls, strict=True))
    servers = iter(servers_of([word for (_, word), is_url in marked if is_url]))
    places = []
    for (label, word), is_url in marked:
        where = next(servers) if is_url else str(resolve_directory(word))
        named = label or ("trial" if len(reported) == 1 else _usual_label(where, is_url=is_url))
        directory, url = ("", where) if is_url else (where, "")
        places.append(Place(label=named, directory=directory, url=url))
    places = _distinguished(places)
    if again or (again is None and len(places) > 1):
        first = places[0]
        control = msgspec.structs.replace(first, label=f"{first.label}{AGAIN}", is_again=True)
        places.append(control)
    return places


def study_mapping(places: Sequence[Place], options: Mapped) -> Mapped:
    """Return the study that the options describe.

    Args:
        places: Where.
        options: Those of the command by name; None or empty where one was not given.

    Raises:
        UsageError: when an option has no effect on what is done.
    """
    kind = _kind(options)
    _require_effect(kind, options)
    quick = kind == "pgbench" and not any(_is_given(options[name]) for name in QUICK_UNLESS)
    workload = _workload(kind, options)
    if quick:
        workload |= _quick(places, options)
    workloads = [*_commit_truth(places, options), workload]
    return without_none(
        {
            "name": "crash" if kind == "crash" else "db",
            "seed": options["seed"],
            "rounds": _rounds(kind, options),
            "budget": without_none({"time_s": _budget_s(places, options, quick=quick)}),
            "target": [_target(place, options) for place in places],
            "workload": workloads,
        }
    )


def _label(word: str) -> tuple[str, str]:
    """Return the label that a user gave, or none, and the place; a path that exists has none."""
    match = _LABELLED.fullmatch(word)
    if match is None or os.path.lexists(word):
        return "", word
    return match[1], match[2]


def _usual_label(where: str, *, is_url: bool) -> str:
    """Return what to call one of several places: the end of its path, or its host."""
    host = where.partition("://")[2].rpartition("@")[2].partition("/")[0].rpartition(":")[0]
    name = host if is_url else Path(where).name
    plain = _NOT_A_NAME.sub("-", name).strip("-_")[:_LABEL_LENGTH_MAX]
    return plain or "trial"


def _distinguished(places: Sequence[Place]) -> list[Place]:
    """Return the places with a number behind each label that was there before."""
    seen: Counter[str] = Counter()
    apart = []
    for place in places:
        seen[place.label] += 1
        number = f"-{seen[place.label]}" if seen[place.label] > 1 else ""
        apart.append(msgspec.structs.replace(place, label=place.label + number))
    return apart


def _kind(options: Mapped) -> str:
    """Return the kind of workload that is asked for.

    Raises:
        UsageError: when several are.
    """
    asked = [name for name in ("batch", "crash") if options[name] is not None]
    if options["workload"] != "pgbench":
        asked.append("workload")
    if len(asked) > 1:
        first, second = (name.replace("_", "-") for name in asked[:2])
        raise UsageError(
            seen=f"--{first} and --{second} are given together",
            cause="Each is a trial of its own kind",
            next_step="Give one of them; a study file can have several workloads",
        )
    return options["workload"] if "workload" in asked else [*asked, "pgbench"][0]


def _require_effect(kind: str, options: Mapped) -> None:
    """Check that every option that is given has an effect.

    Raises:
        UsageError: when one has none.
    """
    specific = frozenset().union(*OPTIONS_OF.values())
    for name in sorted(specific - OPTIONS_OF[kind]):
        if _is_given(options[name]):
            owners = [each for each, names in OPTIONS_OF.items() if name in names]
            option = name.replace("_", "-")
            raise UsageError(
                seen=f"--{option} has no effect on a trial of kind {kind}",
                cause=f"It belongs to {' and '.join(owners)}",
                next_step=f"Leave --{option} out, or ask for the other kind: see `seatrial db "
                "--help`",
            )


def _is_given(value: object) -> bool:
    return value is not None and value not in ((), [], {}, False)


def _workload(kind: str, options: Mapped) -> Mapped:
    names = OPTIONS_OF[kind] - {"batch", "crash"}
    own = {_RENAMED.get(name, name): options[name] for name in names}
    limits = options["memory_limit"]
    common: Mapped = {
        "kind": kind,
        "file": options["batch"],
        "settings": options["set"] or None,
        "memory_limit": None if limits in (None, ["none"]) else limits,
        "seconds": options["seconds"] or (CRASH_SECONDS if kind == "crash" else None),
    }
    return without_none({**own, **common})


def _quick(places: Sequence[Place], options: Mapped) -> Mapped:
    """Return what the quick trial has that nobody asked for: a database beyond its memory."""
    found: Mapped = {
        "scale": QUICK_SCALE,
        "clients": list(QUICK_CLIENTS),
        "seconds": QUICK_SECONDS,
    }
    if _may_limit_memory(places, options):
        found["memory_limit"] = QUICK_MEMORY
    return found


def _may_limit_memory(places: Sequence[Place], options: Mapped) -> bool:
    from seatrial.postgres.memory import limit_obstacle  # noqa: PLC0415 - not for --help

    buffers = "shared_buffers" in {name.lower() for name in options["set"]}
    return not buffers and all(place.directory for place in places) and not limit_obstacle()


def _rounds(kind: str, options: Mapped) -> Mapped:
    rounds = options["crash"] if kind == "crash" else options["rounds"]
    if rounds is not None:
        return {"min": rounds, "max": rounds}
    return {"min": 3, "max": 5}


def _budget_s(places: Sequence[Place], options: Mapped, *, quick: bool) -> float | None:
    if options["budget_s"] is not None:
        return float(options["budget_s"])
    return QUICK_BUDGET_S * len(places) if quick else None


def _target(place: Place, options: Mapped) -> Mapped:
    if place.url:
        own = {"kind": "database", "url": place.url, "database": options["database"]}
    else:
        own = {"kind": "directory", "path": place.directory, "size": TRUTH_FILE}
    return without_none({"label": place.label, **own, "pg_bin": options["pg_bin"]})


def _commit_truth(places: Sequence[Place], options: Mapped) -> list[Mapped]:
    """Return the short samples that tell whether a flush is what it says.

    A commit of one page with its fdatasync stands beside a write of one page past the page cache
    that is not flushed at all: the difference is what a flush takes.
    """
    labels = [place.label for place in places if place.directory and not place.is_again]
    if not labels or options["crash"] is not None or not options["commit_truth"]:
        return []
    commit = {
        "name": "commit-truth",
        "kind": "commit",
        "targets": labels,
        "methods": ["fdatasync"],
        "committers": [1],
        "size": TRUTH_BLOCK,
        "log_size": TRUTH_LOG,
        "seconds": TRUTH_SECONDS,
    }
    direct = [
        place.label
        for place in places
        if place.label in labels and _takes_direct(Path(place.directory))
    ]
    if not direct:
        return [commit]
    write = {
        "name": "write-without-flush",
        "kind": "io",
        "targets": direct,
        "operations": "write",
        "block_sizes": TRUTH_BLOCK,
        "pattern": "sequential",
        "skip_unaligned": True,
        "seconds": TRUTH_SECONDS,
    }
    return [commit, write]


def _takes_direct(directory: Path) -> bool:
    """Tell whether files of a directory can be written past the page cache; none is left there."""
    flags = os.O_TMPFILE | os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC
    try:
        os.close(os.open(directory, flags, 0o600))
    except OSError:
        return False
    return True
