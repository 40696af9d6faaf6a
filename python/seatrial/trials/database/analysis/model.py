"""The results of the analysis of database samples. Pure data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import msgspec

from seatrial.published import named, one_of
from seatrial.results.model import DatabaseRecord, Sample
from seatrial.stats.cell_estimates import counted, estimate_of_rounds
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import AnalysedRun
from seatrial.study.cell import Cell, FactorValue
from seatrial.trials.database.study.workloads import DatabaseSpec, spec_of

BOUNDS = (
    *("cpu", "read", "commit", "checkpoint", "lock", "standby", "client", "pace", "order"),
    "inconclusive",
)
"""What a database's throughput may be bound by; ``pace`` and ``order`` apply to replays."""

RIVALS = (
    *("other_waits", "processors", "client", "others_cpu", "steal", "others_io", "checkpoint"),
    *("seatrial", "kernel"),
)
"""Alternative explanations of a bound: see docs/method.md, "What bounds a database"."""


class Rival(msgspec.Struct, frozen=True, kw_only=True):
    """An alternative explanation of a bound, and the figure that may exclude it.

    Attributes:
        name: What else may bound the cell.
        figure: Name of the figure, unit last.
        value: None if it was not measured; then it excludes nothing.
        allowed_max: The largest value at which the rival is excluded.
        is_excluded: Whether it is excluded.
        sentence: The figure in words, without a full stop.
        next: What settles it if it is not excluded.
    """

    name: Annotated[str, one_of(*RIVALS)]
    figure: str
    value: float | None
    allowed_max: float
    is_excluded: bool
    sentence: str
    next: str


class TimeVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds the throughput of a cell, and the evidence for it.

    Attributes:
        bound: The bound; ``inconclusive`` if a rival is not excluded.
        sentence: With figures, such as ``Commit-bound: 71 % of the clients' time was spent waiting
            for WAL writes and syncs ... Excluded: other work (2 % of the CPU) ...``.
        evidence: The figures behind it, by name with unit last.
        likely: The leading bound of an inconclusive verdict; empty if none leads, or if the verdict
            is conclusive.
        rivals: The alternative explanations, each with its figure; empty if no bound leads.
        next: What would settle an inconclusive verdict; empty if there is nothing to settle.
    """

    bound: Annotated[str, one_of(*BOUNDS)]
    sentence: str
    evidence: dict[str, float]
    likely: Annotated[str, one_of("", *BOUNDS)] = ""
    rivals: list[Rival] = []
    next: str = ""


class ReadShares(msgspec.Struct, frozen=True, kw_only=True):
    """Where the blocks that queries read came from: shares that add up to 1.

    Attributes:
        shared_buffers: Hits in shared buffers.
        page_cache: Requested from the operating system, and not read from the device.
        device: Read from the device.
        blocks: Number of blocks of 8 KiB over all rounds.
    """

    shared_buffers: Estimate
    page_cache: Estimate
    device: Estimate
    blocks: int


class DatabaseCell(msgspec.Struct, frozen=True, kw_only=True):
    """One cell of a database over all its rounds; rates and latencies are in its CellSummary.

    Attributes:
        cell: What was measured.
        verdict: What bounds the throughput.
        waits: Share of the active clients' time by wait class, over all rounds, adding up to 1:
            ``cpu``, ``io``, ``lwlock``, ``lock``, ``client``, ``ipc``, ``timeout``,
            ``buffer_pin``, ``other``; empty if no wait events were sampled.
        wait_events: The most frequent events, ``class:event`` with share, at most 12.
        reads: None if the server's statistics could not be read.
        server: Its version string.
        settings: Settings that differ from the server's defaults, by name; of the last round.
        start_state: As requested by the study.
        database_bytes: Size on disk when the samples began; the median.
        loaded_s: Loading time; None if nothing was loaded.
        load_bytes_per_s: Size over the loading time.
        client_cpu_share: Share of a core; the largest of the rounds.
        ceiling_per_s: Rate of the driver against a null server, which answers at once.
        columns: Figures over the rounds by name, unit last, such as ``cpu_user_share``,
            ``cpu_iowait_share``, ``server_cpu_cores``, ``device_read_per_s``,
            ``wal_bytes_per_s``, ``checkpoints``; for the table of where the time goes.
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
    """Time of one transaction as a function of the cache size: ``t = cpu + k * C**-a``.

    Attributes:
        target: Label.
        workload: Name.
        factor: What was varied: ``shared_buffers`` or ``memory_limit_bytes``.
        where: The other factors that its cells share.
        sizes_bytes: Sizes of the measured cells, ascending.
        time_s: Time of one transaction, at each of them.
        cpu_s: The part that does not depend on the cache size.
        k: With ``C`` in bytes; seconds.
        a: The exponent.
        next_size_bytes: Twice the largest size.
        predicted_per_s: At that size, with the prediction interval.
        fits: Whether the model fits within the variance of the rounds; otherwise ``sentence`` says
            why there is no prediction.
        sentence: The result with figures.
        evidence: The figures behind it.
    """

    target: str
    workload: str
    factor: str
    where: dict[str, FactorValue]
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
    """The analysis of a run's database cells.

    Attributes:
        cells: In the order of the plan.
        sweeps: One for each factor that is the size of a cache.
    """

    cells: list[DatabaseCell]
    sweeps: list[CacheSweep]


def database_of(analysed: AnalysedRun) -> DatabaseAnalysis | None:
    """Return the analysis of a run's database cells; None if it has none."""
    found: DatabaseAnalysis | None = analysed.analyses.get("database")
    return found


CEILING_PASSED_RATIO: Final = 1.1
"""Rate over ceiling: a larger ratio is not explained by noise."""


def specification(cell: Cell) -> DatabaseSpec | None:
    """Return a cell's specification; None for an imported cell."""
    return spec_of(cell.spec) if cell.parsed.database is not None else None


def records_of(samples: Iterable[Sample]) -> list[DatabaseRecord]:
    """Return the database records of samples, in their order."""
    return [sample.database for sample in samples if sample.database is not None]


def ceiling_share(rate_per_s: float, ceiling_per_s: float | None) -> float | None:
    """Return the rate as a share of the driver's ceiling; None if unknown.

    A ceiling that was significantly exceeded is invalid: other work took its processors while it
    was measured, once for a whole run.
    """
    if not ceiling_per_s or rate_per_s > CEILING_PASSED_RATIO * ceiling_per_s:
        return None
    return rate_per_s / ceiling_per_s


def batch_times_s(samples: Sequence[Sample], name: str) -> list[float]:
    """Return ``real``, ``user`` or ``sys`` of a batch in each repeat that succeeded."""
    return [
        sample.database.batch_s[name]
        for sample in counted(samples)
        if sample.outcome.completed and not sample.outcome.failed
        if sample.database and name in sample.database.batch_s
    ]


def batch_length(samples: Sequence[Sample], name: str) -> Estimate | None:
    """Return ``real``, ``user`` or ``sys`` of a batch over its repeats, in s; None if unknown."""
    values = batch_times_s(samples, name)
    return estimate_of_rounds(values, "s") if values else None
