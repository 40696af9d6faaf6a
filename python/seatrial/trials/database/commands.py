"""``seatrial db``: PostgreSQL's performance and durability on storage."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from seatrial.cli.options import (
    MeasureOptions,
    measuring_options,
    ray_option,
    servers_of,
    without_none,
)
from seatrial.errors import UsageError

if TYPE_CHECKING:
    from seatrial.study.load import Table

QUICK_SCALE: Final = 25
"""About 400 MB of tables and indexes."""
QUICK_MEMORY: Final = "256MiB"
"""Limit of the server with its page cache: less than the tables."""
QUICK_CLIENTS: Final = (1, 10)
QUICK_SECONDS: Final = 8.0
QUICK_BUDGET_S: Final = 150.0
"""For each target, without loading."""
QUICK_EXCLUDING_OPTIONS: Final = (
    "scale",
    "clients",
    "seconds",
    "rounds",
    "budget_s",
    "memory_limit",
    "rate",
)
"""With one of these options, the defaults of the quick trial do not apply."""

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
CONTROL_SUFFIX: Final = "-aa"
"""Suffix of the label of the A/A control."""


class DatabaseTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A target of a database trial.

    Attributes:
        label: Its name in cells.
        directory: Folder of the data of our own server; empty for an existing server.
        url: Address of an existing server, without a password; empty for a directory.
        is_control: Whether it is the A/A control, a second measurement of the first target.
    """

    label: str
    directory: str = ""
    url: str = ""
    is_control: bool = False


def trial_targets(
    directories: Sequence[str], urls: Sequence[str], *, again: bool | None
) -> list[DatabaseTarget]:
    """Return the targets of a trial; passwords are removed from addresses.

    Args:
        directories: As given by the user, optionally as ``LABEL=DIR``; one that is an address
            is used as one.
        urls: Addresses, optionally as ``LABEL=URL``.
        again: Whether there is an A/A control; by default with several targets.

    Raises:
        TargetError: when a directory does not exist.
        UsageError: when there is no target, or an address is invalid.
    """
    from seatrial.machine.resolve import resolve_directory  # noqa: PLC0415
    from seatrial.study.server_address import is_server_address  # noqa: PLC0415

    labelled = [_label(word) for word in (*directories, *urls)]
    if not labelled:
        raise UsageError(
            seen="No directory or server is given",
            cause="A new server needs a directory; an existing one needs an address",
            next_step="Name one, as in `seatrial db /mnt/ssd` or `seatrial db --url "
            "postgresql://HOST/DATABASE`",
        )
    are_urls = [is_server_address(word) for _, word in labelled[: len(directories)]]
    are_urls += [True] * len(urls)
    entries = list(zip(labelled, are_urls, strict=True))
    servers = iter(servers_of([word for (_, word), is_url in entries if is_url]))
    targets = []
    for (label, word), is_url in entries:
        location = next(servers) if is_url else str(resolve_directory(word))
        name = label or ("trial" if len(labelled) == 1 else _default_label(location, is_url=is_url))
        directory, url = ("", location) if is_url else (location, "")
        targets.append(DatabaseTarget(label=name, directory=directory, url=url))
    targets = _with_distinct_labels(targets)
    if again or (again is None and len(targets) > 1):
        first = targets[0]
        control = msgspec.structs.replace(
            first, label=f"{first.label}{CONTROL_SUFFIX}", is_control=True
        )
        targets.append(control)
    return targets


def study_mapping(targets: Sequence[DatabaseTarget], options: Mapping[str, Any]) -> Table:
    """Return the study of the options.

    Args:
        targets: The targets.
        options: Options of the command by name; None or empty if not given.

    Raises:
        UsageError: when an option has no effect.
    """
    kind = _kind(options)
    _require_effect(kind, options)
    quick = kind == "pgbench" and not any(
        _is_given(options[name]) for name in QUICK_EXCLUDING_OPTIONS
    )
    workload = _workload(kind, options)
    if quick:
        workload |= _quick(targets, options)
    workloads = [*_flush_checks(targets, options), workload]
    return without_none(
        {
            "name": "crash" if kind == "crash" else "db",
            "seed": options["seed"],
            "rounds": _rounds(kind, options),
            "budget": without_none({"time_s": _budget_s(targets, options, quick=quick)}),
            "hosts": {"counts": options["hosts"]} if options["hosts"] else None,
            "target": [_target(target, options) for target in targets],
            "workload": workloads,
        }
    )


def _label(word: str) -> tuple[str, str]:
    """Return the user's label, if any, and the path or URL; an existing path has none."""
    match = _LABELLED.fullmatch(word)
    if match is None or os.path.lexists(word):
        return "", word
    return match[1], match[2]


def _default_label(location: str, *, is_url: bool) -> str:
    """Return the default label of one of several targets: the end of its path, or its host."""
    host = location.partition("://")[2].rpartition("@")[2].partition("/")[0].rpartition(":")[0]
    name = host if is_url else Path(location).name
    plain = _NOT_A_NAME.sub("-", name).strip("-_")[:_LABEL_LENGTH_MAX]
    return plain or "trial"


def _with_distinct_labels(targets: Sequence[DatabaseTarget]) -> list[DatabaseTarget]:
    """Return the targets with a number after each repeated label."""
    seen: Counter[str] = Counter()
    distinct = []
    for target in targets:
        seen[target.label] += 1
        number = f"-{seen[target.label]}" if seen[target.label] > 1 else ""
        distinct.append(msgspec.structs.replace(target, label=target.label + number))
    return distinct


def _kind(options: Mapping[str, Any]) -> str:
    """Return the requested kind of workload.

    Raises:
        UsageError: when several are.
    """
    requested = [name for name in ("batch", "crash") if options[name] is not None]
    if options["workload"] != "pgbench":
        requested.append("workload")
    if len(requested) > 1:
        first, second = (name.replace("_", "-") for name in requested[:2])
        raise UsageError(
            seen=f"--{first} and --{second} are given together",
            cause="They are different kinds of trials",
            next_step="Use one of them; a study file can have several workloads",
        )
    return options["workload"] if "workload" in requested else [*requested, "pgbench"][0]


def _require_effect(kind: str, options: Mapping[str, Any]) -> None:
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
                next_step=f"Leave out --{option}, or use the other kind: see `seatrial db --help`",
            )


def _is_given(value: object) -> bool:
    return value is not None and value not in ((), [], {}, False)


def _workload(kind: str, options: Mapping[str, Any]) -> Table:
    names = OPTIONS_OF[kind] - {"batch", "crash"}
    own = {_RENAMED.get(name, name): options[name] for name in names}
    limits = options["memory_limit"]
    common: Table = {
        "kind": kind,
        "file": options["batch"],
        "settings": options["set"] or None,
        "memory_limit": None if limits in (None, ["none"]) else limits,
        "seconds": options["seconds"] or (CRASH_SECONDS if kind == "crash" else None),
    }
    return without_none({**own, **common})


def _quick(targets: Sequence[DatabaseTarget], options: Mapping[str, Any]) -> Table:
    """Return the defaults of the quick trial: a database larger than its memory."""
    found: Table = {
        "scale": QUICK_SCALE,
        "clients": list(QUICK_CLIENTS),
        "seconds": QUICK_SECONDS,
    }
    if _may_limit_memory(targets, options):
        found["memory_limit"] = QUICK_MEMORY
    return found


def _may_limit_memory(targets: Sequence[DatabaseTarget], options: Mapping[str, Any]) -> bool:
    from seatrial.postgres.memory import limit_obstacle  # noqa: PLC0415 - not for --help

    buffers = "shared_buffers" in {name.lower() for name in options["set"]}
    return not buffers and all(target.directory for target in targets) and not limit_obstacle()


def _rounds(kind: str, options: Mapping[str, Any]) -> Table:
    rounds = options["crash"] if kind == "crash" else options["rounds"]
    if rounds is not None:
        return {"min": rounds, "max": rounds}
    return {"min": 3, "max": 5}


def _budget_s(
    targets: Sequence[DatabaseTarget], options: Mapping[str, Any], *, quick: bool
) -> float | None:
    if options["budget_s"] is not None:
        return float(options["budget_s"])
    return QUICK_BUDGET_S * len(targets) if quick else None


def _target(target: DatabaseTarget, options: Mapping[str, Any]) -> Table:
    if target.url:
        own = {"kind": "database", "url": target.url, "database": options["database"]}
    else:
        own = {"kind": "directory", "path": target.directory, "size": TRUTH_FILE}
    return without_none({"label": target.label, **own, "pg_bin": options["pg_bin"]})


def _flush_checks(targets: Sequence[DatabaseTarget], options: Mapping[str, Any]) -> list[Table]:
    """Return the short samples that show whether flushes are durable.

    A commit of one page with fdatasync is compared with a direct write of one page
    without a flush: the difference is the time of a flush.
    """
    labels = [target.label for target in targets if target.directory and not target.is_control]
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
        target.label
        for target in targets
        if target.label in labels and _supports_direct_io(Path(target.directory))
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


def _supports_direct_io(directory: Path) -> bool:
    """Return whether files of a directory support direct I/O; none is left there."""
    flags = os.O_TMPFILE | os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC
    try:
        os.close(os.open(directory, flags, 0o600))
    except OSError:
        return False
    return True


EPILOG: Final = """\b
Without options, a trial of one directory takes about three minutes: TPC-B-like pgbench
transactions at scale 25 (400 MB), 1 and 10 clients, 8 s each, 3 to 5 rounds. If a memory limit can
be set (as root, or in a delegated control group), the server and the page cache of its files get
256 MiB. Without a limit, a database that fits into memory is read from memory after a few seconds
and does not test the storage; even scale 1000 fits into 24 GB. In that case each sample still
starts cold, and every commit waits for the storage.

\b
Examples:
  seatrial db /mnt/ssd
  seatrial db hdd=/mnt/sda ssd=/mnt/nvme             interleaved, compared, with an A/A control
  seatrial db /mnt/ssd --scale 100,1000 --clients 1,10 --seconds 60 --rounds 10
  seatrial db /mnt/ssd --set wal_sync_method=fdatasync,open_datasync
  seatrial db /mnt/ssd --memory-limit 256MiB,512MiB,1GiB --script select-only
  seatrial db /mnt/ssd --rate 500 --latency-limit 50 late transactions are counted, not hidden
  seatrial db /mnt/ssd --workload telemetry --devices 1000
  seatrial db /mnt/ssd --batch nightly.sql --prepare tables.sql
  seatrial db /mnt/ssd --crash=20                    kill -9 under load, twenty times
  seatrial db /mnt/ssd --crash --power-cut           as root: with power failure
  seatrial db --url postgresql://bench@db1/postgres  creates a database and drops it again
  seatrial db --url postgresql://bench@db1/postgres --ray auto --hosts 1,2,4   clients on many hosts
  seatrial db /mnt/ssd --plan

\b
Each value of a list (a,b,c) is a separate test. Passwords come from PGPASSWORD or ~/.pgpass and
never appear in results, reports or logs. docs/database.md describes what is measured, and how.
"""


def _values(
    read: Callable[[str], object], expected: str
) -> Callable[[click.Context, click.Parameter, str | None], list[object] | None]:
    """Return a parser of comma-separated values."""

    def callback(
        _context: click.Context, _parameter: click.Parameter, written: str | None
    ) -> list[object] | None:
        if written is None:
            return None
        try:
            return [read(word.strip()) for word in written.split(",")]
        except ValueError:
            raise click.BadParameter(f"{written!r} is not {expected}") from None

    return callback


_INTEGERS: Final = _values(int, "an integer, or several separated by commas")
_NUMBERS: Final = _values(float, "a number, or several separated by commas")
_WORDS: Final = _values(str, "a list")


_Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def _factor(name: str, value: str, callback: Callable[..., object], about: str) -> _Option:
    """Return an option with one or several values; each is a separate test."""
    return click.option(name, metavar=f"{value},...", callback=callback, help=about)


def _settings(
    _context: click.Context, _parameter: click.Parameter, written: tuple[str, ...]
) -> dict[str, list[str]]:
    """Return the settings by name; a value in single quotes may contain commas."""
    found: dict[str, list[str]] = {}
    for word in written:
        name, equals, values = word.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{word!r} is not NAME=VALUE")
        quoted = values.startswith("'") and values.endswith("'") and len(values) > 1
        own = [values[1:-1]] if quoted else [value.strip() for value in values.split(",")]
        found.setdefault(name.strip(), []).extend(own)
    return found


@click.command("db", epilog=EPILOG)
@click.argument("directories", nargs=-1, metavar="[[LABEL=]DIR]...")
@click.option(
    "--url",
    "urls",
    multiple=True,
    metavar="[LABEL=]URL",
    help="An existing server, postgresql://USER@HOST:PORT/DATABASE; may be repeated.",
)
@click.option(
    "--database", metavar="NAME", help="Existing empty database to use; by default one is created."
)
@_factor("--scale", "N", _INTEGERS, "Scale of the tables of pgbench or --crash: 16 MB per unit.")
@_factor("--clients", "N", _INTEGERS, "Connections per process; by default 10.")
@_factor(
    "--processes", "N", _INTEGERS, "Client processes, each with a separate database; by default 1."
)
@_factor(
    "--script", "NAME", _WORDS, "tpcb-like, simple-update, select-only, or a pgbench script file."
)
@_factor("--protocol", "NAME", _WORDS, "simple, extended or prepared.")
@_factor(
    "--rate",
    "PER_S",
    _NUMBERS,
    "Scheduled transactions per second per process; by default unlimited.",
)
@click.option(
    "--latency-limit",
    type=float,
    metavar="MS",
    help="With --rate: skip and count transactions that are later than this.",
)
@click.option("--seconds", type=float, help="Sample duration; time limit of a batch.")
@click.option(
    "--rounds", type=int, help="Number of rounds; by default 3 to 5, depending on variance."
)
@click.option(
    "--set",
    metavar="NAME=VALUE,...",
    multiple=True,
    callback=_settings,
    help="Server setting; may be repeated. On an existing server, per database.",
)
@_factor(
    "--start",
    "STATE",
    _WORDS,
    "Cache state at the start of each sample: cold (default), warm or prewarmed.",
)
@_factor(
    "--memory-limit",
    "SIZE",
    _WORDS,
    "Memory limit of the server and its page cache; `none` for none.",
)
@click.option(
    "--clone",
    type=click.Choice(["auto", "reflink", "copy", "template", "reuse"]),
    help="How each sample gets a copy of the data; by default auto.",
)
@click.option(
    "--pg-bin",
    type=click.Path(),
    help="Folder of the PostgreSQL programs; by default the newest installed version.",
)
@click.option(
    "--workload",
    type=click.Choice(["pgbench", "telemetry"]),
    default="pgbench",
    show_default=True,
    help="Workload of the clients.",
)
@_factor("--devices", "N", _INTEGERS, "Telemetry: number of devices; by default 1,000.")
@_factor("--history-hours", "N", _INTEGERS, "Telemetry: hours of history; by default 24.")
@_factor("--batch-rows", "N", _INTEGERS, "Telemetry: rows per transaction; by default 100.")
@click.option(
    "--query-share", type=float, help="Telemetry: share of transactions that query; by default 0.1."
)
@click.option(
    "--batch", metavar="FILE", help="Time a .sql file, or a program (PGHOST etc. are set)."
)
@click.option("--prepare", metavar="FILE", help="With --batch: SQL file to load before.")
@click.option(
    "--crash",
    is_flag=False,
    flag_value=CRASHES,
    type=click.IntRange(1, 1000),
    metavar="[=N]",
    help=f"Kill the server under load N times ({CRASHES}) and check for lost transactions.",
)
@click.option(
    "--power-cut",
    is_flag=False,
    flag_value="honest",
    type=click.Choice(["honest", "lying"]),
    metavar="[=honest|lying]",
    help="With --crash, as root: drop unflushed writes; lying: drop flushed ones, too.",
)
@click.option(
    "--aa/--no-aa",
    "again",
    default=None,
    help="A/A control: measure the first target twice; default with several targets.",
)
@click.option(
    "--commit-truth/--no-commit-truth",
    default=True,
    show_default=True,
    help="Check flush durability first by timing flushes and writes (about 2 s).",
)
@click.option(
    "--reference",
    is_flag=True,
    help="Show the figures published in 2010 in the report's first chart.",
)
@click.option("--budget", "budget_s", type=float, metavar="SECONDS", help="Time for the rounds.")
@click.option("--seed", type=int, help="Seed of the order and of the transactions.")
@click.option("--resume", is_flag=True, help="Resume the newest unfinished run of this plan.")
@ray_option
@_factor(
    "--hosts",
    "N",
    _INTEGERS,
    "With --ray: numbers of hosts that run clients, each a test; by default all.",
)
@measuring_options
def command(
    *,
    directories: tuple[str, ...],
    urls: tuple[str, ...],
    again: bool | None,
    resume: bool,
    reference: bool,
    ray: str | None,
    measuring: MeasureOptions,
    **options: Any,  # noqa: ANN401 - as the study's keys take them
) -> int:
    """Measure PostgreSQL on storage: transactions per second, and what limits them.

    In a DIR a temporary server is created: it listens on a private socket
    only, runs as an unused user ID if the command runs as root, and is removed afterwards.
    The data are loaded once and copied for each sample, so that all samples start equally.
    Several DIRs are interleaved and compared with the first.
    """
    from seatrial.cli.study_command import plan_for, show_or_measure  # noqa: PLC0415
    from seatrial.study.load import study_from_options  # noqa: PLC0415

    targets = trial_targets(directories, urls, again=again)
    options["hosts"] = _hosts(ray, options["hosts"])
    study = study_from_options(study_mapping(targets, options), KEY_OPTIONS)
    return show_or_measure(
        plan_for(study), measuring, resume=resume, with_published=reference, ray=ray or ""
    )


def _hosts(ray: str | None, counts: list[int] | None) -> list[int] | None:
    """Return the numbers of hosts; by default that of the whole cluster.

    Raises:
        ClusterError: when the cluster cannot be used.
        UsageError: when numbers are given without a cluster.
    """
    if ray is None:
        if counts:
            raise UsageError(
                seen="--hosts is given without --ray",
                cause="The hosts are those of a Ray cluster",
                next_step="Specify the address of its head with --ray HOST:6379",
            )
        return None
    if counts:
        return counts
    from seatrial.fleet.cluster import connect  # noqa: PLC0415 - not for --help

    with connect(ray) as cluster:
        return [max(1, sum(node.cpus >= 1 for node in cluster.nodes()))]
