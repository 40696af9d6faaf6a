"""Constraints between the keys of a study that measures databases."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from seatrial.postgres.settings import OURS_TO_SET
from seatrial.study.problems import ConstraintError, no_effect
from seatrial.study.schema import Study, Target
from seatrial.study.server_address import (
    ADDRESS_EXPECTED,
    holds_password,
    is_server_address,
)
from seatrial.study.values import many
from seatrial.trials.database.study.cells import OWN_FACTORS, setting_text
from seatrial.trials.database.study.workloads import (
    Batch,
    Crash,
    OnDatabase,
    Pgbench,
    Replay,
    SettingValue,
)
from seatrial.trials.replay.study.check import on_server, replays

SETTING_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(?:\.[A-Za-z_][A-Za-z0-9_$]*)?")
"""A parameter's name; for an extension's, with the extension as prefix."""
DATABASE_NAME_BYTES_MAX: Final = 63  # PostgreSQL cuts longer identifiers off

_NEEDS_OWN_SERVER: Final = "This needs a server that Seatrial starts itself, in a directory"


def check_databases(study: Study) -> Iterator[ConstraintError]:
    """Yield the violated constraints between the keys of databases."""
    for each in (database_targets, database_workloads, databases_on_layouts, databases_of_hosts):
        yield from each(study)


def databases_of_hosts(study: Study) -> Iterator[ConstraintError]:
    """Yield the violated constraints of a server loaded by several hosts."""
    own = [isinstance(workload, OnDatabase) for workload in study.workloads]
    if study.hosts is None or not any(own):
        return
    if not all(own):
        yield ConstraintError(
            "cannot be in one study with [hosts] and a database workload",
            "Put block I/O of several hosts into a separate study",
            "workload",
            own.index(False),
        )
    if study.hosts.files != "shared":
        yield ConstraintError("has no effect on servers", "Remove it", "hosts", "files")
    for index, target in enumerate(study.targets):
        # A shipped study leaves the path open.
        is_folder = bool(target.path) and not is_server_address(target.path)
        if is_folder or target.kind not in ("auto", "database"):
            yield ConstraintError(
                "is a directory, and [hosts] load a server",
                "Name a server that all hosts reach, with url = "
                f"{ADDRESS_EXPECTED!r}: Seatrial's own has a private socket only",
                "target",
                index,
            )


def database_targets(study: Study) -> Iterator[ConstraintError]:
    """Yield the violated constraints of targets that are servers, and of their keys."""
    for index, target in enumerate(study.targets):
        for found in (*_address(target), *_database(target)):
            yield ConstraintError(found.seen, found.expected, "target", index, *found.path)


def _address(target: Target) -> Iterator[ConstraintError]:
    """Yield the errors of an address; no message quotes it, as it may contain a password."""
    for key, address in (("url", target.url), ("path", target.path)):
        if is_server_address(address) and holds_password(address):
            yield ConstraintError(
                "contains a password, which would be stored with the results",
                "Remove it, and set the variable PGPASSWORD or use ~/.pgpass",
                key,
            )
    if target.url and not is_server_address(target.url):
        yield ConstraintError(
            "is not the address of a server", f"Expected {ADDRESS_EXPECTED}", "url"
        )
    if target.url and target.path:
        yield ConstraintError(
            "is given together with a path", "A target has either path or url", "url"
        )
    if target.url and target.kind not in ("auto", "database"):
        yield ConstraintError(
            f"is given, but the target's kind is {target.kind!r}",
            "Only targets of kind 'database' have an address",
            "url",
        )
    if target.kind == "database" and target.path and not is_server_address(target.path):
        yield ConstraintError(
            f"is {target.path!r}, not the address of a server",
            f"A database has an address: url = {ADDRESS_EXPECTED!r}; leave out kind to start a "
            "separate PostgreSQL in that directory",
            "path",
        )


def _database(target: Target) -> Iterator[ConstraintError]:
    is_server = is_existing_server(target)
    if target.database and not is_server and not may_become_server(target):
        yield ConstraintError(
            "is given, but the target is not a server",
            "Only targets of kind 'database' have one; otherwise the run creates one",
            "database",
        )
    if len(target.database.encode()) > DATABASE_NAME_BYTES_MAX or not _is_plain(target.database):
        yield ConstraintError(
            f"is {target.database!r}",
            f"A database name is plain text of at most {DATABASE_NAME_BYTES_MAX} bytes",
            "database",
        )
    if is_server and target.size_bytes is not None:
        yield no_effect("The workloads determine the size of a database", "size")
    if target.pg_bin and target.kind in ("device", "file", "null", "simulated"):
        yield ConstraintError(
            f"is given, but the target's kind is {target.kind!r}",
            "It is for directories and databases",
            "pg_bin",
        )


def is_existing_server(target: Target) -> bool:
    """Return whether a target is an existing server."""
    return target.kind == "database" or bool(target.url) or is_server_address(target.path)


def may_become_server(target: Target) -> bool:
    """Return whether the command line may still set a server as the target."""
    return target.kind == "auto" and not target.path


def database_workloads(study: Study) -> Iterator[ConstraintError]:
    """Yield the violated constraints of a database workload, and between it and its targets."""
    for index, workload in enumerate(study.workloads):
        if not isinstance(workload, OnDatabase):
            continue
        own = (
            *_clients(workload),
            *_rate(workload),
            *_scripts(workload),
            *_crashes(workload),
            *_prepared(workload),
            *_settings(workload),
            *(replays(workload) if isinstance(workload, Replay) else ()),
            *_memory(workload),
            *_on_targets(study, workload),
        )
        for found in own:
            yield ConstraintError(found.seen, found.expected, "workload", index, *found.path)


def _clients(workload: OnDatabase) -> Iterator[ConstraintError]:
    if isinstance(workload, Batch) and many(workload.clients) != [1]:
        counts = ", ".join(map(str, many(workload.clients)))
        yield ConstraintError(
            f"is {counts}",
            "A batch has one client; use 'processes' for several in parallel",
            "clients",
        )


def _rate(workload: OnDatabase) -> Iterator[ConstraintError]:
    if not isinstance(workload, Pgbench):
        return
    if workload.latency_limit_ms is not None and workload.rate_per_s is None:
        yield no_effect("Only scheduled transactions can be late: set a rate", "latency_limit_ms")


def _crashes(workload: OnDatabase) -> Iterator[ConstraintError]:
    """Yield keys that have no effect on a crash trial, whose server continues after each crash."""
    if not isinstance(workload, Crash):
        return
    given = {
        "processes": workload.processes != 1,
        "start": workload.start is not None,
        "clone": workload.clone != "auto",
        "memory_limit": workload.memory_limit_bytes is not None,
    }
    for key, is_given in given.items():
        if is_given:
            yield no_effect("A crash trial has one server, which keeps its state", key)


def _scripts(workload: OnDatabase) -> Iterator[ConstraintError]:
    """Yield scripts with names that do not distinguish their cells."""
    if not isinstance(workload, Pgbench):
        return
    seen: set[str] = set()
    for nth, script in enumerate(many(workload.scripts)):
        name = PurePath(script).name
        if not name or not _is_plain(script):
            yield ConstraintError(
                f"is {script!r}, not the name of a file", "Expected a script", "scripts"
            )
        if name in seen:
            yield ConstraintError(
                f"has the name {name!r} of a previous one",
                "Tests are named after their scripts: rename one",
                "scripts",
                nth,
            )
        seen.add(name)


def _prepared(workload: OnDatabase) -> Iterator[ConstraintError]:
    if isinstance(workload, Batch) and workload.prepare and workload.scale != Batch(file="x").scale:
        yield no_effect("With 'prepare' there are no pgbench tables", "scale")


def _settings(workload: OnDatabase) -> Iterator[ConstraintError]:
    seen: set[str] = set()
    for name, values in workload.settings.items():
        path = ("settings", name)
        plain = name.lower()
        if not SETTING_NAME.fullmatch(name):
            yield ConstraintError(
                "is not the name of a setting", "An example: shared_buffers", *path
            )
        if plain in OURS_TO_SET:
            yield ConstraintError(
                "cannot be set", "Seatrial sets it to reach the server and to read its log", *path
            )
        if plain in OWN_FACTORS:
            yield ConstraintError(
                "is not a server setting", "It is a key of the workload: move it there", *path
            )
        if plain in seen:
            yield ConstraintError("is given twice", "Names are not case-sensitive", *path)
        seen.add(plain)
        yield from _setting_values(many(values), *path)


def _setting_values(values: list[SettingValue], *path: str | int) -> Iterator[ConstraintError]:
    texts = [setting_text(value) for value in values]
    for value, text in zip(values, texts, strict=True):
        if isinstance(value, float) and not math.isfinite(value):
            yield ConstraintError(f"is {text}", "Expected a finite number", *path)
        if not _is_plain(text):
            yield ConstraintError(f"is {text!r}", "Expected one line of plain text", *path)
    twice = next((text for text in texts if texts.count(text) > 1), None)
    if twice is not None:
        yield ConstraintError(f"has {twice!r} twice", "Expected each value once", *path)


def _is_plain(text: str) -> bool:
    """Return whether a text is one printable line."""
    return text.isprintable()


def _memory(workload: OnDatabase) -> Iterator[ConstraintError]:
    if workload.memory_limit_bytes is not None and "warm" in many(workload.start):
        yield ConstraintError(
            "is given, but start is 'warm'",
            "The pages of a copy are already in the page cache, which the limit does not cover: "
            "expected start = 'cold' or 'prewarmed'",
            "memory_limit",
        )


def _on_targets(study: Study, workload: OnDatabase) -> Iterator[ConstraintError]:
    """Yield keys that a target does not support, as it is, or is not, an existing server."""
    for target in study.targets:
        if workload.targets and target.label not in workload.targets:
            continue
        if is_existing_server(target):
            yield from _on_server(workload, target)
            continue
        if isinstance(workload, Replay) and workload.restore and not may_become_server(target):
            yield ConstraintError(
                f"is given, but target {target.label!r} is not an existing server",
                "In a directory, each sample starts with a copy of the data of 'prepare'",
                "restore",
            )
        if not may_become_server(target) and "as_is" in many(workload.start):
            yield ConstraintError(
                f"is 'as_is', but target {target.label!r} is not an existing server",
                "Expected cold, warm or prewarmed",
                "start",
            )


def _on_server(workload: OnDatabase, target: Target) -> Iterator[ConstraintError]:
    description = f"target {target.label!r} is an existing server"
    if isinstance(workload, Replay) and not workload.loads:
        yield from on_server(workload, description)
        return
    if isinstance(workload, Crash):
        yield ConstraintError(
            f"requests crashes, but {description}",
            "Seatrial kills only servers that it started",
            "kind",
        )
    starts = [start for start in many(workload.start) if start not in (None, "as_is", "prewarmed")]
    if starts:
        yield ConstraintError(f"is {starts[0]!r}, but {description}", _NEEDS_OWN_SERVER, "start")
    if workload.memory_limit_bytes is not None:
        yield ConstraintError(f"is given, but {description}", _NEEDS_OWN_SERVER, "memory_limit")
    if workload.clone in ("reflink", "copy"):
        yield ConstraintError(
            f"is {workload.clone!r}, but {description}, whose files Seatrial does not access",
            "Expected template, reuse or auto",
            "clone",
        )
    if target.database and workload.settings:
        yield ConstraintError(
            f"are given, but target {target.label!r} names a database",
            "They would be changed permanently there: leave out 'database' or the settings",
            "settings",
        )
    if target.database and max(many(workload.processes)) > 1:
        yield ConstraintError(
            f"is {max(many(workload.processes))}, but target {target.label!r} names one database",
            "Each process needs a separate database: leave out 'database' to create them",
            "processes",
        )
    if target.database and workload.clone == "template":
        yield ConstraintError(
            f"is 'template', but target {target.label!r} names one database",
            "A copy would be another database: expected reuse, or leave out 'database'",
            "clone",
        )


def databases_on_layouts(study: Study) -> Iterator[ConstraintError]:
    """Yield workloads on layouts with keys that require an existing server."""
    if not study.layouts or study.plain_targets:
        return
    for index, workload in enumerate(study.workloads):
        if not isinstance(workload, OnDatabase) or isinstance(workload, Crash):
            continue
        if "as_is" in many(workload.start):
            yield ConstraintError(
                "is 'as_is', but the targets are layouts",
                "Expected cold, warm or prewarmed: the server is created for the trial",
                *("workload", index, "start"),
            )
