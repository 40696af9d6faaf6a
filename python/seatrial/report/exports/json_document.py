"""The documents that hold whole runs: ``run``, and the list of ``runs``.

A document is a subclass of :class:`Document`; docs/schema/ is generated from all of them by
tools/generate/schemas.py. Names end in their unit; percentiles that too few requests could know
are absent, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast

import msgspec
from msgspec import UNSET, UnsetType

from seatrial import _core
from seatrial.errors import SeatrialError
from seatrial.findings.answer import RunAnswer, answer
from seatrial.findings.model import Analyses, Summary, ThresholdResult
from seatrial.findings.ranks import ranked
from seatrial.published import FLATTENED, Amount, Count, Positive, filled, one_of, publish
from seatrial.report.lab import lab_notice, notices_of
from seatrial.results.model import (
    DatabaseRecord,
    ErrorSample,
    LayoutRecord,
    OperationResult,
    Outcome,
    Run,
    Sample,
    Stall,
    Verification,
)
from seatrial.results.replay import ReplayRecord
from seatrial.stats.cell_estimates import known_percentiles
from seatrial.stats.estimate import AtLeast, Spread
from seatrial.stats.model import CellSummary, Estimate, Finding
from seatrial.stats.steady.phases import SteadyState
from seatrial.study.cell import Cell, FactorValue
from seatrial.topic import topics

SCHEMA: Final = 1
"""Rises when a name is removed or changes its meaning, not when one is added."""


def _version() -> str:
    return _core.__version__


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON document of the program.

    Attributes:
        seatrial: Version of Seatrial that wrote the document.
        schema: Rises when a name is removed or changes its meaning.
        kind: Which of the documents it is (docs/json.md).
    """

    seatrial: str = msgspec.field(default_factory=_version)
    schema: Literal[1] = SCHEMA
    kind: str

    def as_text(self) -> str:
        """Return it as indented JSON; numbers that are not finite are null.

        Bytes of a file's name that are not UTF-8 become escape sequences.
        """
        return msgspec.json.format(json_text(self), indent=2) + "\n"


Operation = Literal[
    "read",
    "write",
    "mixed",
    "commit",
    "copy",
    "transaction",
    "batch",
    "statement",
    "files",
    "flush",
    "discard",
    "other",
]
"""The operation of a cell."""


class Factors(msgspec.Struct, frozen=True, kw_only=True):
    """What distinguishes a cell from others: every factor, and its value.

    Attributes:
        target: Label of the target in the study.
        workload: Name of the workload in the study.
        operation: What it does.
        block_size_bytes: Size of one request; 0 where the workload has a distribution.
        threads: Concurrent workers; of a database, clients of each process; 0 if that is
            unknown, as others did it.
        depth: Requests that each worker keeps in flight.
        others: The workload's own factors, such as ``pattern``, ``file``, ``zone`` or ``method``.
    """

    target: str
    workload: str
    operation: Operation
    block_size_bytes: Count
    threads: Count
    depth: Positive
    others: Annotated[dict[str, FactorValue], FLATTENED]


def factors_of(cell: Cell) -> Factors:
    """Return the factors of a cell."""
    return filled(
        Factors,
        cell,
        operation=cast(Operation, cell.operation),
        others=cell.factors,
    )


class ErrorDocument(Document, frozen=True, kw_only=True):
    """An error.

    Any command that could not do what was requested.

    Attributes:
        error: Its class, such as ResultsFileError.
        exit_code: Exit code of the command.
        seen: What was seen.
        cause: The likely cause.
        next: The next command to try.
    """

    kind: Literal["error"] = "error"
    error: str
    exit_code: Positive
    seen: str
    cause: str
    next: str


def error_document(error: SeatrialError) -> ErrorDocument:
    """Return the document of an error, for a command with ``--json``."""
    return ErrorDocument(
        error=type(error).__name__,
        exit_code=error.exit_code,
        seen=error.seen,
        cause=error.cause,
        next=error.next_step,
    )


def json_text(value: object) -> str:
    """Return a value as a document contains it, as JSON in one line."""
    content = publish(value)
    try:
        return msgspec.json.encode(content).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(in_utf8(content)).decode()


def in_utf8(value: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """Return a value in which bytes that are not UTF-8 are escape sequences."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {in_utf8(name): in_utf8(item) for name, item in value.items()}
    return [in_utf8(item) for item in value] if isinstance(value, list) else value


ENGINES: Final = (
    *("io_uring", "psync", "simulated", "null", "imported"),
    *("pgbench", "script", "ledger", "replay"),
)
"""The engine of a sample."""


class JudgedThreshold(msgspec.Struct, frozen=True, kw_only=True):
    """One threshold of the study and the worst of the cells that it selects.

    Attributes:
        name: Left side as in the study, such as ``commit.p99_ms``.
        condition: Right side as in the study, such as ``< 5``.
        met: Whether every selected cell meets it; False if that is unknown.
        doubtful: Whether the worst cell's interval reaches across the limit; if all cells meet it,
            whether that of any does.
        worst: The worst cell's figure; None if absent. Cells that certainly miss the limit are
            worse than those that may meet it.
        cell_key: Key of the worst cell; empty without one.
        sentence: Threshold, figure with its interval, and test, or why it cannot be judged.
    """

    name: str
    condition: str
    met: bool
    doubtful: bool
    worst: Estimate | None
    cell_key: str
    sentence: str


class MeasuredCell(msgspec.Struct, frozen=True, kw_only=True):
    """One cell over all its rounds, with its own factors in addition.

    Attributes:
        key: Unique within a plan and stable between runs.
        kind: Kind of the workload: ``matrix``, ``commit``, ``map`` ...
        factors: What distinguishes it from others.
        iops: Completed requests per second.
        bandwidth: Bytes per second.
        latency: Response times by kind of request, then by name: ``mean``, ``p50``, ``p90``,
            ``p99``, ``p99.9``, ``max``. A percentile is absent when a round had too few requests
            for it.
        latency_at_least: By kind of request and percentile name, the lower bound of a percentile
            that is absent because requests were skipped or never ended.
        completed: Requests over all rounds.
        failed: Requests over all rounds.
        blank: The text instead of a figure when nothing completed; else empty.
        spread: Spread of the rounds' rates; None when measured once.
        running_from_s: Start of the running phase, from which figures are computed, from a sample's
            start; 0 if no start-up phase was excluded.
    """

    key: str
    kind: str
    factors: Annotated[Factors, FLATTENED]
    iops: Estimate
    bandwidth: Estimate
    latency: dict[str, dict[str, Estimate]]
    latency_at_least: dict[str, dict[str, AtLeast]]
    completed: Count
    failed: Count
    blank: str
    spread: Spread | None
    running_from_s: Amount


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Times in ns; empty when nothing completed.

    A percentile for which too few requests completed is absent.

    Attributes:
        min: The shortest.
        mean: Their mean.
        p50: The median.
        p90: The 90th percentile.
        p99: The 99th percentile.
        p99_9: The 99.9th percentile.
        max: The longest.
    """

    min: Count | UnsetType = UNSET
    mean: Amount | UnsetType = UNSET
    p50: Amount | UnsetType = UNSET
    p90: Amount | UnsetType = UNSET
    p99: Amount | UnsetType = UNSET
    p99_9: Amount | UnsetType = msgspec.field(name="p99.9", default=UNSET)
    max: Count | UnsetType = UNSET


class MeasuredOperation(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of request of a sample.

    Attributes:
        completed: Requests that succeeded.
        failed: Requests that ended with an error.
        transferred_bytes: Bytes that the completed requests transferred.
        response_ns: From when the request was due.
        service_ns: From the actual start, under an arrival schedule; None in a closed loop, where
            it equals the response.
        reported_ns: Response times that a foreign result reports without a histogram, by name
            (``p50`` ... ``p99.9``, ``mean``, ``max``); empty for what was measured here.
    """

    completed: Count
    failed: Count
    transferred_bytes: Count
    response_ns: Times
    service_ns: Times | None
    reported_ns: dict[str, float]


class MeasuredSample(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement of a cell; only the figures of the cell have intervals.

    Attributes:
        id: Number in the results file.
        cell_key: Key of its cell.
        cell: Factors of its cell.
        round: From 0.
        position: Position in the order of the round, from 0.
        started_at: Unix time in s.
        duration_s: Measured length.
        status: Whether it lasted as long as planned.
        engine: What measured it.
        engine_reason: Why that engine, as a phrase.
        completed_per_s: Requests of all kinds, without the syncs of ``sync_every``.
        transferred_bytes_per_s: Requests of all kinds.
        outcome: Number of requests by outcome.
        operations: By kind of request: ``read``, ``write``, ``sync``, ``commit``, ``copy``; of a
            replay by class of statement.
        stalls: In order of time.
        stalls_dropped: Stalls beyond those that a sample stores.
        oldest_in_flight_ns: Age of the oldest request that had not ended; 0 if none.
        errors_count: All failed requests.
        errors: Examples of them.
        counters: Other readings by name, unit last; None where a reading is not a number.
        verification: Results of the data check, if there was one.
        database: For a sample of a database.
        layout: For a sample on an array that was built for the trial.
        replay: For a sample of a replay.
    """

    id: Count
    cell_key: str
    cell: Factors
    round: Count
    position: Count
    started_at: float
    duration_s: Amount
    status: Annotated[str, one_of("complete", "interrupted")]
    engine: Annotated[str, one_of(*ENGINES)]
    engine_reason: str
    completed_per_s: Amount
    transferred_bytes_per_s: Amount
    outcome: Outcome
    operations: dict[str, MeasuredOperation]
    stalls: list[Stall]
    stalls_dropped: Count
    oldest_in_flight_ns: Count
    errors_count: Count
    errors: list[ErrorSample]
    counters: Mapping[str, float | None]
    verification: Verification | None
    database: DatabaseRecord | None
    layout: LayoutRecord | None
    replay: ReplayRecord | None


_PARTS: Final = {each.name: part for each in topics() if (part := each.document_part())}

if TYPE_CHECKING:
    OfTopics = msgspec.Struct
else:
    OfTopics = msgspec.defstruct(
        "OfTopics",
        [(part.name, part.type) for part in _PARTS.values()],
        frozen=True,
        kw_only=True,
        namespace={
            "__doc__": "\n".join(
                [
                    "The topics' analyses of their cells.\n\nAttributes:",
                    *(f"    {part.name}: {part.meaning}" for part in _PARTS.values()),
                ]
            )
        },
    )


class RunDocument(Document, frozen=True, kw_only=True):
    """A run.

    ``seatrial run``, ``study``, ``io``, ``db``, ``show`` and ``export``.

    Attributes:
        run: Its context.
        notice: A remark on all figures of the run, such as that it is of the lab; empty for none.
        verdict: One sentence: how fast, and the most severe finding.
        answer: The answer, which terminal and page show first.
        findings: The most severe first.
        thresholds: Results of the study's thresholds, in their order; exit code 3 when one is not
            met.
        steady: For each cell that was measured for long enough: phases, and what the rules
            of steady state say.
        of_topics: The topics' analyses of their cells, each under its own name.
        analyses: Analyses of further topics, by the topic's name.
        cells: In the order of the plan.
        samples: By cell, then by round.
    """

    kind: Literal["run"] = "run"
    run: Run
    notice: str
    verdict: str
    answer: RunAnswer
    findings: list[Finding]
    thresholds: list[JudgedThreshold]
    steady: list[SteadyState]
    of_topics: Annotated[OfTopics, FLATTENED]
    analyses: Analyses
    cells: list[MeasuredCell]
    samples: list[MeasuredSample]


class RunsDocument(Document, frozen=True, kw_only=True):
    """The runs of a results file.

    ``seatrial list``.

    Attributes:
        runs: The newest first.
        notices: Remarks on all figures of a run, such as that it is of the lab, by identifier.
    """

    kind: Literal["runs"] = "runs"
    runs: list[Run]
    notices: dict[str, str]


def run_document(
    summary: Summary, profile: str = "", earlier: Sequence[Sequence[Sample]] = ()
) -> RunDocument:
    """Return a run with its findings, cells and samples.

    Args:
        summary: The run.
        profile: Name or file of the profile that the answer grades figures by; empty for none.
        earlier: Samples of earlier runs that figures are ranked among.

    Raises:
        UsageError: when there is no such profile.
    """
    return RunDocument(
        run=summary.run,
        notice=lab_notice(summary.run),
        verdict=summary.verdict,
        answer=ranked(answer(summary, profile), summary.cells, earlier),
        findings=summary.findings,
        thresholds=[_threshold(result) for result in summary.thresholds],
        steady=summary.steady,
        of_topics=OfTopics(**{part.name: part.value_of(summary) for part in _PARTS.values()}),
        analyses=_further(summary),
        cells=[_cell(part) for part in summary.cells],
        samples=[_sample(sample) for part in summary.cells for sample in part.samples],
    )


def _further(summary: Summary) -> dict[str, object]:
    """Return the analyses of topics without a key of their own."""
    return {name: found for name, found in summary.analyses.items() if name not in _PARTS}


def runs_document(runs: Sequence[Run]) -> RunsDocument:
    """Return the runs of a results file."""
    return RunsDocument(runs=list(runs), notices=notices_of(runs))


def render(summary: Summary, profile: str = "", earlier: Sequence[Sequence[Sample]] = ()) -> str:
    """Return a run as one JSON document; see ``run_document``."""
    return run_document(summary, profile, earlier).as_text()


def _threshold(result: ThresholdResult) -> JudgedThreshold:
    return filled(JudgedThreshold, result, result.threshold, cell_key=result.cell)


def _cell(summary: CellSummary) -> MeasuredCell:
    return filled(MeasuredCell, summary, summary.cell, factors=factors_of(summary.cell))


def _sample(sample: Sample) -> MeasuredSample:
    operations = sample.operations.items()
    return filled(
        MeasuredSample,
        sample,
        cell_key=sample.cell.key,
        cell=factors_of(sample.cell),
        operations={name: _operation(result) for name, result in operations},
    )


def _operation(result: OperationResult) -> MeasuredOperation:
    return filled(
        MeasuredOperation,
        result,
        response_ns=_times(result.response_histogram()),
        service_ns=None if not result.service else _times(result.service_histogram()),
    )


def _times(histogram: _core.Histogram) -> Times:
    """Return the times of a histogram: none if empty, percentiles with enough entries."""
    if histogram.count == 0:
        return Times()
    known = known_percentiles(histogram)
    return Times(min=histogram.min_ns, mean=histogram.mean_ns, max=histogram.max_ns, **known)
