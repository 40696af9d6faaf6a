"""The workloads of a database, and the specification of their cells for the measuring room.

docs/study-file.md explains every key with an example.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

import msgspec
from msgspec import Meta, field

from seatrial import _core
from seatrial.study.cell import Cell
from seatrial.study.sampled import DATABASE_STALL_THRESHOLD_MS, SampledWorkload
from seatrial.study.values import (
    ONE,
    Counts,
    ManyThreads,
    Processes,
    Rates,
    Seconds,
    Sizes,
    StallThresholdMs,
    Threads,
)

BUILTIN_SCRIPTS: Final = ("tpcb-like", "simple-update", "select-only")
"""pgbench's own, by the names that its option ``--builtin`` takes."""

Protocol = Literal["simple", "extended", "prepared"]
StartState = Literal["cold", "warm", "prewarmed", "as_is"]
Clone = Literal["auto", "reflink", "copy", "template", "reuse"]
PowerCut = Literal["none", "honest", "lying"]
Speed = Literal["max"] | Annotated[float, Meta(gt=0, le=1000)]
Pace = Literal["arrivals", "think_times"]
Order = Literal["session", "commit", "object", "key", "strict"]
Ids = Literal["infer", "off"]
Danger = Literal[
    "copy_program",
    "dblink",
    "terminate_backend",
    "notify",
    "ddl",
    "server",
    "recovery",
    "same_system",
    "sequence_mismatch",
]
"""What a replay does only where it is requested.

The last three are set by the target, the others by each statement
(``crates/playback/src/item.rs``).
"""
SettingValue = bool | int | float | str

Scripts = str | Annotated[list[str], ONE]
Protocols = Protocol | Annotated[list[Protocol], ONE]
StartStates = StartState | Annotated[list[StartState], ONE]
PowerCuts = PowerCut | Annotated[list[PowerCut], ONE]
Speeds = Speed | Annotated[list[Speed], ONE]
Orders = Order | Annotated[list[Order], ONE]
IdsChoices = Ids | Annotated[list[Ids], ONE]
Settings = dict[str, SettingValue | Annotated[list[SettingValue], ONE]]


class OnDatabase(SampledWorkload, frozen=True, kw_only=True):
    """What the kinds have that a database serves.

    Attributes:
        duration_s: How long one sample of one cell lasts (``seconds``).
        clients: Connections that have a transaction open at any time, of each process.
        processes: Client processes, each with a database of its own, as the two client machines
            of the article had.
        settings: Settings of the server by name; a list is a factor.
        start: The state that each sample begins in. ``cold``: the server is restarted and the
            page cache holds nothing of its files. ``warm``: restarted, the page cache as the
            clone left it. ``prewarmed``: restarted, or an existing server as it is; its
            tables read into shared buffers by pg_prewarm. ``as_is``: an existing server as it is.
        memory_limit_bytes: Memory of the server and of the page cache of its files
            (``memory_limit``); none unless given.
        clone: How each sample gets the loaded data: ``reflink`` or ``copy`` of the files,
            ``template`` (``CREATE DATABASE ... TEMPLATE``), ``auto`` (the first of these that
            works), or ``reuse`` (the same data go on from sample to sample, and age).
        optional: Leave it out, and say why, where no PostgreSQL is found or there is no room for
            it, rather than refuse the study.
        stall_threshold_ms: As of every workload; longer here, for a few commits on a disk take
            what is a stall of its blocks.
    """

    duration_s: Seconds = field(default=10.0, name="seconds")
    stall_threshold_ms: StallThresholdMs = DATABASE_STALL_THRESHOLD_MS
    clients: ManyThreads = 10
    processes: Processes = 1
    settings: Settings = field(default_factory=dict)
    start: StartStates | None = None
    memory_limit_bytes: Sizes | None = field(default=None, name="memory_limit")
    clone: Clone = "auto"
    optional: bool = False


class Pgbench(OnDatabase, frozen=True, kw_only=True, tag="pgbench"):
    """PostgreSQL's own benchmark, TPC-B like by default.

    Attributes:
        scale: 100,000 accounts each, about 15 MB.
        scripts: ``tpcb-like``, ``simple-update``, ``select-only``, or files of pgbench's script
            language.
        protocols: ``simple``, ``extended`` or ``prepared``.
        rate_per_s: Transactions per second of each process (``rate``), due by a Poisson process;
            none unless given: each client then waits for its last transaction only.
        latency_limit_ms: With ``rate``, transactions that are late by more are skipped and
            counted.
        jobs: Threads of pgbench; as many as there are cores and clients unless given.
    """

    scale: Counts = 10
    scripts: Scripts = "tpcb-like"
    protocols: Protocols = "simple"
    rate_per_s: Rates | None = field(default=None, name="rate")
    latency_limit_ms: Annotated[float, Meta(gt=0, le=86_400_000)] | None = None
    jobs: Threads | None = None


class Telemetry(OnDatabase, frozen=True, kw_only=True, tag="telemetry"):
    """Many devices report samples, which are stored and read back by ranges of time.

    What the article of 2010 sought a drive for: hundreds of devices and servers that generate
    thousands of samples a minute, to be captured, stored and reported.

    Attributes:
        devices: How many report.
        history_hours: What is stored already when a sample begins, one row a device and minute.
        batch_rows: Rows that one transaction stores.
        query_share: Share of the transactions that read a device's last hour instead.
        rate_per_s: Transactions per second of each process (``rate``); none unless given.
        jobs: Threads of pgbench, which drives it.
    """

    devices: Counts = 1000
    history_hours: Counts = 24
    batch_rows: Counts = 100
    query_share: Annotated[float, Meta(ge=0, le=1)] = 0.1
    rate_per_s: Rates | None = field(default=None, name="rate")
    jobs: Threads | None = None


class Batch(OnDatabase, frozen=True, kw_only=True, tag="batch"):
    """A file of SQL, or a program, that is timed from start to end, as a nightly job is.

    Attributes:
        duration_s: It is ended, and counted as failed, after this time (``seconds``).
        clients: Always 1.
        file: The file: ``.sql`` goes through psql and ends at its first error; anything else is
            run as a program, with PGHOST, PGPORT, PGUSER and PGDATABASE in its environment.
        prepare: A file of SQL that is loaded once before; pgbench's tables unless given.
        scale: Scale of pgbench's tables, where there is no ``prepare``.
    """

    duration_s: Seconds = field(default=3600.0, name="seconds")
    clients: ManyThreads = 1
    file: Annotated[str, Meta(min_length=1)]
    prepare: str = ""
    scale: Counts = 10

    ENDS_BY_ITSELF: ClassVar[bool] = True


class Crash(OnDatabase, frozen=True, kw_only=True, tag="crash"):
    """A server of our own is killed in mid-load and held to what it acknowledged.

    Each round is one crash, on the data that the crashes before it have left.

    Attributes:
        duration_s: The longest time until the kill, which comes at a moment of chance
            (``seconds``).
        clients: Connections that each have a transaction open at any time.
        scale: Scale of its own tables: 16 MB for each unit, as of pgbench's; a few hundred KB
            unless given.
        processes: Always 1.
        power_cut: ``none``: the server's processes are killed, and what the page cache holds
            survives. ``honest``: the power of its storage fails as well, which keeps what it was
            requested to flush. ``lying``: the storage loses its last second, flushed or not.
    """

    duration_s: Seconds = field(default=3.0, name="seconds")
    clients: ManyThreads = 4
    scale: Counts | None = None
    power_cut: PowerCuts = "none"

    @property
    def allows_faults(self) -> bool:
        """Never: it ends at a moment of chance."""
        return False


RESTORE_S_MAX: Final = 3600.0
"""How long a restore command may take unless the study says otherwise."""


class SchemaVariant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schema that a replay is tried on: the snapshot, perhaps migrated.

    Attributes:
        name: What cells call it.
        migrate: A file of SQL that makes it of the snapshot's; none for the snapshot's own.
    """

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]
    migrate: str = ""


REPLAY_S_MAX: Final = _core.DURATION_S_MAX
"""The default of a key that a replay has no use for: it lasts until its trace ends."""
TRACE_S_MAX: Final = 3650 * 86_400
MAX: Final = "max"
"""The speed at which nothing waits but for an answer."""


class Replay(OnDatabase, frozen=True, kw_only=True, tag="replay"):
    """What was captured of a server's work, played to another one (docs/sql.md).

    Attributes:
        duration_s: Not used (``seconds``): a replay lasts until its trace, or ``until``, ends.
        clients: Not used: each session of the trace has a connection of its own.
        processes: Always 1.
        trace: The trace, as ``seatrial sql read`` wrote it.
        prepare: What is loaded before, once: a file of SQL, or an archive of pg_dump (a file, or
            the folder of its format ``directory``).
        scale: Scale of pgbench's tables, loaded before in place of ``prepare``.
        speed: ``max``, or how many times faster than it was captured.
        pace: What the speed divides: ``arrivals`` (times from the beginning of the capture) or
            ``think_times`` (times from the end of a session's statement to its next).
        order: What keeps its order: the statements of each ``session``; also what a ``commit`` of
            another session came before; statements on the same ``object`` (table or sequence), or
            on the same ``key`` of one, where one writes; or all of them (``strict``).
        ids: ``infer`` maps ids that the captured server made to those that this one makes; ``off``
            sends what was captured. ``infer`` unless given, ``off`` with ``read_only``.
        read_only: Send only what a transaction that reads only takes.
        until_s: Seconds after the first statement at which the replay ends (``until``).
        connections: At once, at most; as many as were open at once in the capture unless given.
        databases: Captured databases whose sessions are played; needed where it has several.
        allow: What is else refused.
        allow_writes: Name of a database that is not ours, typed exactly: it may be written to.
        restore: A command of the shell that brings a database which is there already back to its
            snapshot, run before each sample with ``DATABASE_URL`` and libpq's variables set.
        restore_s_max: It is ended, and the sample fails, after this time (``restore_seconds``).
        compare_rows: What the captured database held at the end, as ``seatrial sql rows`` wrote it;
            the trace's own name with ``.rows`` behind it unless given, where that is there.
        schema: Schemas to try, each a migration of the snapshot; the snapshot's own unless given.
    """

    duration_s: Seconds = field(default=REPLAY_S_MAX, name="seconds")
    clients: ManyThreads = 1
    trace: Annotated[str, Meta(min_length=1)]
    prepare: str = ""
    scale: Counts | None = None
    speed: Speeds = MAX
    pace: Pace = "arrivals"
    order: Orders = "session"
    ids: IdsChoices | None = None
    read_only: bool = False
    until_s: Annotated[float, Meta(gt=0, le=TRACE_S_MAX)] | None = field(default=None, name="until")
    connections: Threads | None = None
    databases: list[str] = field(default_factory=list)
    allow: list[Danger] = field(default_factory=list)
    allow_writes: str = ""
    restore: str = ""
    restore_s_max: Seconds = field(default=RESTORE_S_MAX, name="restore_seconds")
    compare_rows: str = ""
    schema: list[SchemaVariant] = field(default_factory=list)

    ENDS_BY_ITSELF: ClassVar[bool] = True

    @property
    def usual_ids(self) -> Ids:
        """What becomes of ids unless the study sets it: a trace that only reads creates none."""
        return "off" if self.read_only else "infer"

    @property
    def loads(self) -> bool:
        """Whether anything is loaded before; an existing database stays as it is without."""
        return bool(self.prepare) or self.scale is not None


DATABASE_KINDS: Final = ("pgbench", "telemetry", "batch", "crash", "replay")


class LoadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a database holds before any sample; the same on each of its processes' databases.

    Attributes:
        kind: ``pgbench``, ``telemetry``, ``sql``, ``archive`` (of pg_dump), ``ledger`` of a crash
            trial, or ``nothing``.
        scale: Scale of the tables of pgbench, or of a crash trial; there 0 stands for the smallest.
        devices: Number of devices in the telemetry.
        history_hours: Hours of telemetry that are loaded before.
        file: The file of ``sql`` and ``archive``.
        migrate: A file of SQL that changes all this into another schema; empty for none.
    """

    kind: str
    scale: int = 0
    devices: int = 0
    history_hours: int = 0
    file: str = ""
    migrate: str = ""

    @property
    def unmigrated(self) -> LoadSpec:
        """The same in the schema that it came with."""
        return msgspec.structs.replace(self, migrate="")


class ReplaySpec(msgspec.Struct, frozen=True, kw_only=True):
    """What is played in a cell of a replay.

    Attributes:
        trace: Its path.
        identity: Hash of its content, so that a resume goes on with no other; empty where it was
            not there when the plan was made.
        statements: In the trace.
        captured_s: From the first statement to the end of the last.
        speed: How many times faster than captured; None for as fast as the server answers.
        pace: What the speed divides.
        order: What keeps its order.
        ids: What becomes of generated ids: ``infer`` or ``off``.
        read_only: Whether only what reads is sent.
        until_s: As ``Replay.until_s``.
        connections_max: At once; None for as many as when captured.
        databases: Captured databases that are played; empty for all.
        allow: What is else refused.
        allow_writes: The database that may be written to although it is not ours.
        is_standing: Whether the database is there already, and nothing is loaded into it.
        restore: A command that brings it back to its snapshot before each sample; empty for none.
        restore_s_max: How long that may take.
        schema: What the schema is called; empty where there is only the snapshot's own.
        compare_rows: As ``Replay.compare_rows``.
    """

    trace: str
    identity: str = ""
    statements: int = 0
    captured_s: float = 0.0
    speed: float | None = None
    pace: str = "arrivals"
    order: str = "session"
    ids: str = "off"
    read_only: bool = False
    until_s: float | None = None
    connections_max: int | None = None
    databases: list[str] = []
    allow: list[str] = []
    allow_writes: str = ""
    is_standing: bool = False
    restore: str = ""
    restore_s_max: float = RESTORE_S_MAX
    schema: str = ""
    compare_rows: str = ""


class DatabaseSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What the measuring room knows of a cell, in ``Cell.spec["database"]`` as plain values.

    Attributes:
        load: What the databases hold.
        clients: Clients of each process.
        processes: Each has a database of its own.
        script: A builtin script's name, or the path of a script's file; of a batch, its file.
        protocol: ``simple``, ``extended`` or ``prepared``.
        rate_per_s: Rate of each process; None for a closed loop.
        latency_limit_ms: Later transactions are skipped; None for none.
        jobs: Threads of the driver; None for its own choice.
        batch_rows: Rows of a batch of telemetry.
        query_share: Share of queries in the telemetry.
        settings: Settings of the server, as text.
        start: The start state.
        memory_limit_bytes: None for none.
        clone: How samples get their data.
        power_cut: Kind of power cut of a crash trial: ``none``, ``honest`` or ``lying``.
        replay: What is played; None of any other kind.
    """

    load: LoadSpec
    clients: int
    processes: int = 1
    script: str = ""
    protocol: str = "simple"
    rate_per_s: float | None = None
    latency_limit_ms: float | None = None
    jobs: int | None = None
    batch_rows: int = 0
    query_share: float = 0.0
    settings: dict[str, str] = {}
    start: str
    memory_limit_bytes: int | None = None
    clone: str = "auto"
    power_cut: str = "none"
    replay: ReplaySpec | None = None

    @property
    def is_standing(self) -> bool:
        """Whether it takes, or copies, a database that is there already, and loads nothing."""
        return self.replay is not None and self.replay.is_standing


def is_of_database(cell: Cell) -> bool:
    """Return whether a cell is one of a database, measured or imported."""
    return cell.kind in DATABASE_KINDS


def spec_of(cell_spec: dict[str, object]) -> DatabaseSpec:
    """Return the database's part of a cell's specification.

    Raises:
        KeyError: when the cell is not one of a database.
    """
    return msgspec.convert(cell_spec["database"], DatabaseSpec)
