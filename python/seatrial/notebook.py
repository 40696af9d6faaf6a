"""A results file in a notebook: typed objects with an HTML representation, and numpy arrays.

The types are those of the model (results/model.py, findings/model.py) with a ``_repr_html_``, which
returns plain, escaped tables. The file is opened and closed for each access, so that a notebook
never blocks a run in progress.

    >>> results = seatrial.open("results.seatrial")      # doctest: +SKIP
    >>> run = results.run("last")                        # doctest: +SKIP
    >>> run.samples[0].buckets("read").counts            # doctest: +SKIP
    >>> run.samples[0].series_arrays().columns           # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from seatrial._core import Histogram
from seatrial.findings import model as run_model
from seatrial.findings.context import has_stall_watch
from seatrial.lazy import np
from seatrial.report.markup import fill
from seatrial.report.part import plain_table
from seatrial.report.table import NO_FIGURE, Table, doubt_text, rate_text
from seatrial.report.tables import runs_table, steady_table, tables
from seatrial.results import model
from seatrial.results.store import ResultsFile
from seatrial.stats import model as cells_model
from seatrial.stats.wording import (
    format_cell,
    format_count,
    format_duration_s,
    format_iops,
    format_rate_bytes,
)
from seatrial.trials.audit.analysis import model as audit
from seatrial.trials.audit.analysis.model import audits_of
from seatrial.trials.audit.report.section import audit_tables, audits_table
from seatrial.trials.database.analysis.model import DatabaseAnalysis, database_of
from seatrial.trials.layouts.analysis.model import LayoutAnalysis, layouts_of
from seatrial.trials.loadline.analysis import model as loadline
from seatrial.trials.loadline.analysis.model import load_lines_of
from seatrial.trials.loadline.report import load_line_table, load_lines_table
from seatrial.trials.replay.analysis.model import ReplayCell, replays_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


class Buckets(NamedTuple):
    """A histogram as arrays of equal length, in rising order: buckets with entries only.

    Attributes:
        lower_ns: Lower bounds, inclusive.
        upper_ns: Upper bounds, exclusive.
        counts: Entries.
    """

    lower_ns: NDArray[np.int64]
    upper_ns: NDArray[np.int64]
    counts: NDArray[np.int64]


class TimelineArrays(NamedTuple):
    """A timeline as arrays of equal length: every slice, including those without completions.

    Attributes:
        t_s: Where each slice begins, from the sample's start.
        completed: Requests that succeeded in it.
        transferred_bytes: Bytes that they transferred.
        p50_ns: Median of their response times; NaN where nothing completed.
        p99_ns: 99th percentile; NaN where nothing completed.
    """

    t_s: NDArray[np.float64]
    completed: NDArray[np.int64]
    transferred_bytes: NDArray[np.int64]
    p50_ns: NDArray[np.float64]
    p99_ns: NDArray[np.float64]


class SeriesArrays(NamedTuple):
    """Readings over a sample of a database, as arrays of equal length.

    Attributes:
        t_s: Where each reading begins, from the sample's start.
        columns: Readings by name, unit last; NaN where nothing could be read.
    """

    t_s: NDArray[np.float64]
    columns: dict[str, NDArray[np.float64]]


class TableList(list[T]):
    """A list that a notebook shows as a table, drawn by a function."""

    def __init__(self, items: Iterable[T], draw: Callable[[list[T]], Table]) -> None:
        super().__init__(items)
        self._draw = draw

    def _repr_html_(self) -> str:
        return plain_table(self._draw(self))


class Results:
    """A results file, open for reading.

    Args:
        path: The file.

    Raises:
        ResultsFileError: It is missing, not ours, damaged or of a newer schema.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with ResultsFile.open(self.path, read_only=True):
            pass

    @property
    def runs(self) -> TableList[Run]:
        """All runs, the newest first; raises ResultsFileError when the file cannot be read."""
        with ResultsFile.open(self.path, read_only=True) as file:
            found = file.runs()
        return TableList((_like(run, Run, path=self.path) for run in found), runs_table)

    def run(self, reference: str = "last") -> Run:
        """Return one run by id, beginning of an id, label, or ``last`` for the newest.

        Raises:
            UsageError: No run matches, or several ids have that beginning.
        """
        with ResultsFile.open(self.path, read_only=True) as file:
            return _like(file.run(reference), Run, path=self.path)

    def __repr__(self) -> str:
        return f"Results({str(self.path)!r})"

    def _repr_html_(self) -> str:
        return self.runs._repr_html_()


class Run(model.Run, frozen=True, kw_only=True, dict=True):
    """A run with its samples and their analysis; read when first requested.

    Attributes:
        path: The results file that holds it.
    """

    path: Path

    @cached_property
    def samples(self) -> TableList[Sample]:
        """The samples in the order of measuring; raises ResultsFileError when unreadable."""
        with ResultsFile.open(self.path, read_only=True) as file:
            found = file.samples(self.id)
        return TableList((_like(sample, Sample) for sample in found), _samples_table)

    @cached_property
    def summary(self) -> Summary:
        """Cells with their intervals, findings and verdict; raises ResultsFileError."""
        from seatrial.findings.summary import summarise  # noqa: PLC0415 - may bring in scipy

        found = summarise(_like(self, model.Run), self.samples)
        return _like(
            found,
            Summary,
            cells=TableList((_like(cell, CellSummary) for cell in found.cells), _cells_table),
            findings=TableList((_like(each, Finding) for each in found.findings), _findings_table),
            steady=TableList(found.steady, lambda states: steady_table(states, found.cells)),
        )

    @property
    def findings(self) -> list[cells_model.Finding]:
        """The findings, the most severe first; raises ResultsFileError when unreadable."""
        return self.summary.findings

    def _repr_html_(self) -> str:
        return plain_table(runs_table([self]))


class Sample(model.Sample, frozen=True, kw_only=True):
    """A sample that gives its histograms, timeline and series as arrays.

    ``database`` is the plain record of a database's sample: server, settings, waits, totals.
    """

    def buckets(self, operation: str) -> Buckets:
        """Return the response times of one operation kind, such as ``read``.

        Raises:
            KeyError: The sample has no request of this kind.
        """
        found = self._operation(operation).response_histogram().buckets()
        return Buckets(*(np.array(column, dtype=np.int64) for column in found))

    def timeline_arrays(self, operation: str) -> TimelineArrays:
        """Return the timeline of one operation kind.

        Raises:
            KeyError: The sample has no request of this kind.
        """
        self._operation(operation)
        slices = [part for part in self.timeline.slices if part.operation == operation]
        slice_s = self.timeline.slice_ns / 1e9
        last = max((part.index for part in slices), default=-1)
        count = max(last + 1, int(np.ceil(self.duration_s / slice_s - 1e-9)))
        arrays = TimelineArrays(
            np.arange(count, dtype=np.float64) * slice_s,
            np.zeros(count, dtype=np.int64),
            np.zeros(count, dtype=np.int64),
            np.full(count, np.nan),
            np.full(count, np.nan),
        )
        for part in slices:
            histogram = Histogram.decode(part.response)
            arrays.completed[part.index] = part.completed
            arrays.transferred_bytes[part.index] = part.transferred_bytes
            if histogram.count:
                arrays.p50_ns[part.index] = histogram.percentile_ns(50)
                arrays.p99_ns[part.index] = histogram.percentile_ns(99)
        return arrays

    def series_arrays(self) -> SeriesArrays:
        """Return the readings of machine, device and server during the sample.

        Raises:
            KeyError: The sample has none: it is not one of a database.
        """
        if self.series is None:
            raise KeyError("this sample has no time series; only database samples have one")
        columns = {
            name: np.array([np.nan if value is None else value for value in column], dtype=float)
            for name, column in self.series.columns.items()
        }
        count = len(next(iter(columns.values()), ()))
        return SeriesArrays(np.arange(count, dtype=np.float64) * self.series.period_s, columns)

    def _operation(self, operation: str) -> model.OperationResult:
        if operation not in self.operations:
            known = ", ".join(self.operations) or "none"
            raise KeyError(f"this sample has no {operation} requests; available: {known}")
        return self.operations[operation]

    def _repr_html_(self) -> str:
        return plain_table(_samples_table([self]))


class Finding(cells_model.Finding, frozen=True, kw_only=True):
    """A finding that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return plain_table(_findings_table([self]))


class TableAudit(audit.TableAudit, frozen=True, kw_only=True):
    """An audit of a table that a notebook shows as sentence, gaps and parameters."""

    def _repr_html_(self) -> str:
        tables = audit_tables([self])
        return fill("report/templates/notebook.html", sentence=self.sentence, tables=tables)


class LoadLine(loadline.LoadLine, frozen=True, kw_only=True):
    """A load line that a notebook shows as its answer and its steps."""

    def _repr_html_(self) -> str:
        tables = [load_line_table(self)]
        return fill("report/templates/notebook.html", sentence=self.sentence, tables=tables)


class CellSummary(cells_model.CellSummary, frozen=True, kw_only=True):
    """A cell over its rounds that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return plain_table(_cells_table([self]))


class Summary(run_model.Summary, frozen=True, kw_only=True):
    """Everything about a run; a notebook shows verdict, thresholds, findings and tables."""

    @property
    def audits(self) -> TableList[TableAudit]:
        """The audits of the tables of block sizes and concurrency."""
        return TableList((_like(each, TableAudit) for each in audits_of(self)), audits_table)

    @property
    def load_lines(self) -> TableList[LoadLine]:
        """The load lines of the run."""
        return TableList((_like(each, LoadLine) for each in load_lines_of(self)), load_lines_table)

    @property
    def database(self) -> DatabaseAnalysis | None:
        """The analysis of the run's database cells."""
        return database_of(self)

    @property
    def layouts(self) -> LayoutAnalysis | None:
        """The analysis of the run's layouts."""
        return layouts_of(self)

    @property
    def replays(self) -> list[ReplayCell]:
        """The analysis of each cell that replays a trace."""
        return replays_of(self)

    def _repr_html_(self) -> str:
        found = [*([audits_table(self.audits)] if self.audits else []), *tables(self)]
        if self.findings:
            found = [_findings_table(self.findings), *found]
        if self.thresholds:
            found = [_thresholds_table(self.thresholds), *found]
        return fill("report/templates/notebook.html", sentence=self.verdict, tables=found)


def _like(struct: msgspec.Struct, kind: type[S], **more: object) -> S:
    """Return the attributes of ``struct`` as another kind of struct, some of them replaced."""
    names = [name for name in kind.__struct_fields__ if name not in more]
    return kind(**{name: getattr(struct, name) for name in names} | more)


def _samples_table(samples: list[Sample]) -> Table:
    return Table(
        id="samples",
        title="Samples, each measured once",
        labels=2,
        headers=[
            "Test",
            "Round",
            "Status",
            "Length",
            "Per second",
            "Bandwidth",
            "Failed",
            "Stalls",
        ],
        rows=[
            [
                format_cell(sample.cell),
                str(sample.round + 1),
                sample.status,
                format_duration_s(sample.duration_s),
                format_iops(sample.completed_per_s),
                format_rate_bytes(sample.transferred_bytes_per_s),
                format_count(sample.outcome.failed),
                format_count(len(sample.stalls) + sample.stalls_dropped)
                if has_stall_watch([sample])
                else NO_FIGURE,
            ]
            for sample in samples
        ],
    )


def _cells_table(cells: list[CellSummary]) -> Table:
    return Table(
        id="cells",
        title="Tests",
        labels=1,
        headers=["Test", "Per second", "MB/s", "±"],
        rows=[
            [
                format_cell(part.cell),
                rate_text(part.iops),
                rate_text(part.bandwidth),
                part.blank or doubt_text(part.iops),
            ]
            for part in cells
        ],
    )


def _findings_table(findings: list[Finding] | list[cells_model.Finding]) -> Table:
    return Table(
        id="findings",
        title="Findings",
        labels=5,
        headers=["Severity", "Kind", "Evidence", "Likely cause", "Next"],
        rows=[
            [found.severity, found.kind, found.sentence, found.cause, found.next]
            for found in findings
        ],
    )


def _thresholds_table(results: list[run_model.ThresholdResult]) -> Table:
    return Table(
        id="thresholds",
        title="Thresholds",
        labels=2,
        headers=["Result", "What was demanded and seen"],
        rows=[[each.mark, each.sentence] for each in results],
    )
