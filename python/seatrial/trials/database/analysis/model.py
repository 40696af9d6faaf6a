"""What the analysis of a database's samples yields. Pure data."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from seatrial.published import named, one_of
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import Analysed
from seatrial.study.cell import Cell

BOUNDS = (
    *("cpu", "read", "commit", "checkpoint", "lock", "client", "pace", "order"),
    "inconclusive",
)
"""What a database's throughput may be bound by; ``pace`` and ``order`` are those of a replay."""

RIVALS = (
    *("other_waits", "processors", "client", "others_cpu", "steal", "others_io", "checkpoint"),
    *("seatrial", "kernel"),
)
"""What else a bound may be in truth: see docs/method.md, "What bounds a database"."""


class Rival(msgspec.Struct, frozen=True, kw_only=True):
    """Something else that may bound a cell, and the figure that excludes it or does not.

    Attributes:
        name: What it is.
        figure: Name of the figure, unit last.
        value: None where it was not measured; then it excludes nothing.
        allowed_max: The most at which the rival is excluded.
        is_excluded: Whether it is.
        sentence: What was measured, in words, without a full stop.
        next: What settles it where it is not excluded.
    """

    name: Annotated[str, one_of(*RIVALS)]
    figure: str
    value: float | None
    allowed_max: float
    is_excluded: bool
    sentence: str
    next: str


class TimeVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds the throughput of a cell, and the ground for saying so.

    Attributes:
        bound: What it is; ``inconclusive`` where a rival is not excluded.
        sentence: With figures, such as ``Commit-bound: 71 % of the clients' time waited for the WAL
            to be written and synced ... Excluded: other work (2 % of the processors) ...``.
        evidence: The figures behind it, by name with unit last.
        likely: What leads, where the verdict is inconclusive; empty where
            nothing does, and where the verdict says it.
        rivals: What else it may be, each with its figure; empty where nothing leads.
        next: What would settle an inconclusive verdict; empty where nothing is to be settled.
    """

    bound: Annotated[str, one_of(*BOUNDS)]
    sentence: str
    evidence: dict[str, float]
    likely: Annotated[str, one_of("", *BOUNDS)] = ""
    rivals: list[Rival] = []
    next: str = ""


class ReadShares(msgspec.Struct, frozen=True, kw_only=True):
    """What served the blocks that queries read: shares that sum up to 1.

    Attributes:
        shared_buffers: Found in the server's own cache.
        page_cache: Asked of the operating system, and not read from the device.
        device: Read from the device.
        blocks: How many blocks of 8 KiB there were over all rounds.
    """

    shared_buffers: Estimate
    page_cache: Estimate
    device: Estimate
    blocks: int


class DatabaseCell(msgspec.Struct, frozen=True, kw_only=True):
    """One cell of a database over all its rounds; rates and latencies are in its CellSummary.

    Attributes:
        cell: What was measured.
        verdict: What the time went into.
        waits: Share of the active clients' time by wait class, over all rounds, sums up to 1:
            ``cpu``, ``io``, ``lwlock``, ``lock``, ``client``, ``ipc``, ``timeout``,
            ``buffer_pin``, ``other``; empty where none were seen.
        wait_events: The most frequent events, ``class:event`` with share, at most 12.
        reads: None where the server's statistics could not be read.
        server: As it calls itself.
        settings: That are not the server's defaults, by name; of the last round.
        start_state: As the study asked for.
        database_bytes: Size on disk as the samples began; the median.
        loaded_s: How long loading took; None where nothing was loaded.
        load_bytes_per_s: Size over that time.
        client_cpu_share: Of a core; the largest of the rounds.
        ceiling_per_s: Of the driver with a server that answers at once.
        columns: Figures over the rounds by name, unit last, such as ``cpu_user_share``,
            ``cpu_iowait_share``, ``server_cpu_cores``, ``device_read_per_s``,
            ``wal_bytes_per_s``, ``checkpoints``; for the table of what the time went into.
        batch_s: ``real``, ``user``, ``sys`` of a batch.
    """

    cell: Annotated[Cell, named("key")]
    verdict: TimeVerdict
    waits: dict[str, float]
    wait_events: dict[str, float]
    reads: ReadShares | None
    server: str
    settings: dict[str, str]
    start_state: str
    database_bytes: int
    loaded_s: float | None
    load_bytes_per_s: float | None
    client_cpu_share: float | None
    ceiling_per_s: float | None
    columns: dict[str, Estimate]
    batch_s: dict[str, Estimate] = {}


class CacheSweep(msgspec.Struct, frozen=True, kw_only=True):
    """Time for one transaction as a cache's size says: ``t = cpu + k * C**-a``.

    Attributes:
        target: Label.
        workload: Name.
        factor: What was varied: ``shared_buffers`` or ``memory_limit_bytes``.
        where: The other factors that its cells share.
        sizes_bytes: Of the measured cells, ascending.
        time_s: For one transaction, at each of them.
        cpu_s: The part that no cache shortens.
        k: At ``C`` in bytes; seconds.
        a: The exponent.
        next_size_bytes: Twice the largest.
        predicted_per_s: At that size, with the interval of the prediction.
        fits: Whether the law holds within the scatter of the rounds; else ``sentence`` says why
            nothing is predicted.
        sentence: What it says, with figures.
        evidence: The figures behind it.
    """

    target: str
    workload: str
    factor: str
    where: dict[str, Any]
    sizes_bytes: list[int]
    time_s: list[Estimate]
    cpu_s: Estimate
    k: float
    a: Estimate
    next_size_bytes: int
    predicted_per_s: Estimate | None
    fits: bool
    sentence: str
    evidence: dict[str, float] = {}


class DatabaseAnalysis(msgspec.Struct, frozen=True, kw_only=True):
    """What is particular to a run's database cells.

    Attributes:
        cells: In the order of the plan.
        sweeps: Of each factor that is the size of a cache.
    """

    cells: list[DatabaseCell]
    sweeps: list[CacheSweep]


def database_of(analysed: Analysed) -> DatabaseAnalysis | None:
    """Return what is particular to the database cells of a run; None where it has none."""
    found: DatabaseAnalysis | None = analysed.analyses.get("database")
    return found
