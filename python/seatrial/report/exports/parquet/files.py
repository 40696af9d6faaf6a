"""Writes tables as Parquet files, a row group at a time, through pyarrow.

Rows come from a run and its samples as stored, percentiles from full counts. A column has the name
of its attribute (``_filled``); exceptions are listed here.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec.structs import asdict

from seatrial import _core
from seatrial.errors import UsageError
from seatrial.findings.context import is_of_lab
from seatrial.findings.model import Summary
from seatrial.findings.summary import summarise
from seatrial.fingerprint import Device, Target
from seatrial.published import first_attribute
from seatrial.report.exports.json_document import in_utf8, json_text
from seatrial.report.exports.parquet import tables
from seatrial.report.exports.parquet.tables import TABLES, Column, Row, columns_of
from seatrial.results.model import OperationResult, Run, Sample, known_duration_s, origin_of
from seatrial.stats.cell_estimates import known_percentiles
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.set_up import drive_of, firmware_of, host_of, kernel_of

ROWS_A_GROUP: Final = 1 << 16
"""Rows of a row group, the most that are held in memory for each table."""
MARK: Final = "seatrial_table"
"""Key in the metadata of each file; its value is the name of the table."""
_MAGIC: Final = b"PAR1"
_FOOTER_BYTES_MAX: Final = 1 << 24


def require_pyarrow() -> None:
    """Check that Parquet can be written.

    Raises:
        UsageError: The package is not installed.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise UsageError(
            seen="`seatrial export --format parquet` needs pyarrow, which is not installed",
            cause="It is an optional extra of Seatrial",
            next_step="Install it with `pip install 'seatrial[parquet]'`, or export one run with "
            "--format csv or json",
        )


def is_table(path: Path) -> bool:
    """Return whether a file is a table that Seatrial wrote.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        size_bytes = file.seek(0, os.SEEK_END)
        file.seek(max(0, size_bytes - 8))
        length, magic = file.read(4), file.read(4)
        footer_bytes = int.from_bytes(length, "little")
        if magic != _MAGIC or footer_bytes > min(size_bytes, _FOOTER_BYTES_MAX):
            return False
        file.seek(max(0, size_bytes - 8 - footer_bytes))
        return MARK.encode() in file.read(footer_bytes)


def write_tables(
    measured: Iterable[tuple[Run, list[Sample]]], paths: Mapping[str, Path]
) -> dict[str, int]:
    """Write the tables of runs; return the number of rows of each.

    Each file appears under its name when all are complete, and none if anything fails. Memory is
    bounded by the largest run and by :data:`ROWS_A_GROUP` rows of each table.

    Args:
        measured: Runs with their samples, one at a time.
        paths: The file of each table to be written, by the name of the table.

    Raises:
        OSError: A file cannot be written.
    """
    with ExitStack() as stack:
        written = {name: stack.enter_context(_table(name, path)) for name, path in paths.items()}
        for run, samples in measured:
            for name, rows in rows_of(run, samples, paths.keys()):
                for row in rows:
                    written[name].add(row)
        for table in written.values():
            table.finish()
        for table in written.values():
            table.part.replace(table.path)
    return {name: table.rows_count for name, table in written.items()}


@contextmanager
def _table(name: str, path: Path) -> Iterator[_Table]:
    part = path.with_name(f".seatrial-{os.urandom(8).hex()}.part")
    try:
        yield _Table(name, path, part)
    finally:
        part.unlink(missing_ok=True)


class _Table:
    """One file while it is written."""

    def __init__(self, name: str, path: Path, part: Path) -> None:
        import pyarrow as pa  # noqa: PLC0415 - optional, and slow to load
        from pyarrow import parquet  # noqa: PLC0415

        self.path = path
        self.part = part
        self.rows_count = 0
        self._columns = columns_of(TABLES[name])
        self._rows: list[Row] = []
        self._schema = pa.schema(
            [pa.field(each.name, _type(each), each.is_optional) for each in self._columns],
            metadata={MARK: name},
        )
        self._writer = parquet.ParquetWriter(part, self._schema, compression="zstd")

    def add(self, row: Row) -> None:
        """Add a row."""
        self._rows.append(row)
        if len(self._rows) >= ROWS_A_GROUP:
            self._write_group()

    def finish(self) -> None:
        """Write the rest and the footer, to disk."""
        if self._rows:
            self._write_group()
        self._writer.close()
        with self.part.open("rb") as file:
            os.fsync(file.fileno())

    def _write_group(self) -> None:
        import pyarrow as pa  # noqa: PLC0415

        arrays = [
            pa.array(_values(column, self._rows), field.type)
            for column, field in zip(self._columns, self._schema, strict=True)
        ]
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
        self.rows_count += len(self._rows)
        self._rows.clear()


def _type(column: Column) -> Any:  # noqa: ANN401 - pyarrow has no types
    import pyarrow as pa  # noqa: PLC0415

    types = {
        "text": pa.string(),
        "integer": pa.int64(),
        "real": pa.float64(),
        "boolean": pa.bool_(),
        "moment": pa.timestamp("us", tz="UTC"),
    }
    return types[column.type]


def _values(column: Column, rows: list[Row]) -> list[Any]:
    values = [getattr(row, column.name) for row in rows]
    if column.type == "moment":
        return [None if value is None else round(value * 1e6) for value in values]
    if column.type == "text":
        return [None if value is None else in_utf8(value) for value in values]
    return values


R = TypeVar("R", bound=tables.Row)


def rows_of(
    run: Run, samples: Sequence[Sample], names: Collection[str]
) -> Iterator[tuple[str, Iterator[tables.Row]]]:
    """Yield the rows of a run by the name of their table, for the requested tables."""
    if "runs" in names:
        yield "runs", iter([_run(run)])
    if "targets" in names:
        yield "targets", _targets(run, samples)
    for name, rows in _OF_SAMPLES.items():
        if name in names:
            yield name, (row for sample in samples for row in rows(sample, _of(run, sample)))
    if not tables.ANALYSED.isdisjoint(names):
        summary = summarise(run, samples)
        for name, analysed in _ANALYSED.items():
            if name in names:
                yield name, analysed(summary)


def _of(run: Run, sample: Sample) -> tables.SampleKeyRow:
    return tables.SampleKeyRow(run_id=run.id, cell_key=sample.cell.key, round=sample.round)


def _filled(kind: type[R], *sources: object, **own: object) -> R:
    """Return a row of the given values, and of the sources' attributes named as its columns.

    The first source that has the attribute is used. A column whose name ends in ``_json`` contains
    the attribute without that ending as JSON, unless it is None.

    Raises:
        AttributeError: when no source has it.
    """
    for name in kind.__struct_fields__:
        if name not in own:
            attribute = name.removesuffix("_json")
            value = first_attribute(attribute, sources)
            own[name] = value if name == attribute or value is None else json_text(value)
    return kind(**own)


def _run(run: Run) -> tables.RunRow:
    machine, origin = run.fingerprint_before.machine, origin_of(run)
    return _filled(
        tables.RunRow,
        run,
        machine,
        run_id=run.id,
        seed=str(run.seed),
        imported_format=origin.format if origin else None,
        host=host_of(run) or None,
        kernel=kernel_of(run) or None,
        is_of_lab=is_of_lab(run),
    )


def _targets(run: Run, samples: Sequence[Sample]) -> Iterator[tables.TargetRow]:
    for label in dict.fromkeys(sample.cell.target for sample in samples):
        found = run.fingerprint_before.target_of(label) or Target()
        devices = found.physical_devices
        filesystem = found.filesystem
        sizes_bytes = [device.size_bytes for device in devices]
        known_bytes = [size_bytes for size_bytes in sizes_bytes if size_bytes is not None]
        is_known = bool(known_bytes) and len(known_bytes) == len(sizes_bytes)
        yield _filled(
            tables.TargetRow,
            found,
            run_id=run.id,
            target=label,
            filesystem=filesystem.type if filesystem else None,
            mount_options=",".join(filesystem.mount_options) if filesystem else None,
            drive=drive_of(run, label) or None,
            firmware=firmware_of(run, label) or None,
            transport=_each(devices, lambda device: device.transport),
            scheduler=_each(devices, lambda device: device.scheduler),
            write_cache=_each(devices, lambda device: device.write_cache),
            physical_devices=len(devices),
            physical_size_bytes=sum(known_bytes) if is_known else None,
        )


def _each(devices: Sequence[Device], fact: Callable[[Device], str | None]) -> str | None:
    known = dict.fromkeys(found for device in devices if (found := fact(device)))
    return ", ".join(known) or None


def _sample(sample: Sample, of: tables.SampleKeyRow) -> Iterator[tables.Row]:
    is_timed, checked = sample.duration_s > 0, sample.verification
    yield _filled(
        tables.SampleRow,
        of,
        sample.cell,
        sample.outcome,
        sample,
        duration_s=known_duration_s(sample),
        completed_per_s=sample.completed_per_s if is_timed else None,
        transferred_bytes=sum(part.transferred_bytes for part in sample.operations.values()),
        transferred_bytes_per_s=sample.transferred_bytes_per_s if is_timed else None,
        stalls=len(sample.stalls),
        checked_blocks=checked.checked_blocks if checked else None,
        corrupt_blocks=checked.corrupt_blocks if checked else None,
    )


def _operations(sample: Sample, of: tables.SampleKeyRow) -> Iterator[tables.Row]:
    for name, result in sample.operations.items():
        response = _times("response", result.response_histogram())
        service = _times("service", result.service_histogram()) if result.service else {}
        yield _filled(
            tables.OperationRow,
            of,
            result,
            operation=name,
            reported_ns_json=json_text(result.reported_ns) if result.reported_ns else None,
            **(_UNKNOWN | response | service),
        )


_UNKNOWN: Final[dict[str, float | None]] = {
    column.name: None
    for column in tables.columns_of(tables.OperationRow)
    if column.name.startswith(("response_ns_", "service_ns_"))
}


def _times(what: str, histogram: _core.Histogram) -> dict[str, float | None]:
    """Return the times of a histogram by column."""
    if histogram.count == 0:
        return {}
    known: dict[str, float | None] = {
        f"{what}_ns_{name}": value_ns for name, value_ns in known_percentiles(histogram).items()
    }
    return known | {
        f"{what}_ns_min": histogram.min_ns,
        f"{what}_ns_mean": histogram.mean_ns,
        f"{what}_ns_max": histogram.max_ns,
    }


def _buckets(sample: Sample, of: tables.SampleKeyRow) -> Iterator[tables.Row]:
    own = asdict(of)
    for name, result in sample.operations.items():
        for time, histogram in _histograms(result):
            for low_ns, high_ns, count in zip(*histogram.buckets(), strict=True):
                yield tables.BucketRow(
                    **own, operation=name, time=time, low_ns=low_ns, high_ns=high_ns, count=count
                )


def _histograms(result: OperationResult) -> Iterator[tuple[str, _core.Histogram]]:
    yield "response", result.response_histogram()
    if result.service:
        yield "service", result.service_histogram()


def _slices(sample: Sample, of: tables.SampleKeyRow) -> Iterator[tables.Row]:
    own = asdict(of)
    length_ns = sample.timeline.slice_ns
    for part in sample.timeline.slices:
        yield tables.SliceRow(
            **own,
            operation=part.operation,
            slice=part.index,
            start_ns=part.index * length_ns,
            length_ns=length_ns,
            completed=part.completed,
            transferred_bytes=part.transferred_bytes,
        )


def _slice_buckets(sample: Sample, of: tables.SampleKeyRow) -> Iterator[tables.Row]:
    own = asdict(of)
    for part in sample.timeline.slices:
        for low_ns, high_ns, count in zip(
            *_core.Histogram.decode(part.response).buckets(), strict=True
        ):
            yield tables.SliceBucketRow(
                **own,
                operation=part.operation,
                slice=part.index,
                low_ns=low_ns,
                high_ns=high_ns,
                count=count,
            )


def _series(sample: Sample, of: tables.SampleKeyRow) -> Iterator[tables.Row]:
    own = asdict(of)
    if sample.series is None:
        return
    length_s = sample.series.period_s
    for name, column in sample.series.columns.items():
        for index, value in enumerate(column):
            yield tables.SeriesRow(
                **own, name=name, start_s=index * length_s, length_s=length_s, value=value
            )


def _counters(sample: Sample, of: tables.SampleKeyRow) -> Iterator[tables.Row]:
    own = asdict(of)
    for name, value in sample.counters.items():
        yield tables.CounterRow(**own, name=name, value=value)


def _stalls(sample: Sample, of: tables.SampleKeyRow) -> Iterator[tables.Row]:
    yield from (_filled(tables.StallRow, of, stall) for stall in sample.stalls)


def _errors(sample: Sample, of: tables.SampleKeyRow) -> Iterator[tables.Row]:
    yield from (_filled(tables.ErrorRow, of, error) for error in sample.errors)


def _corruptions(sample: Sample, of: tables.SampleKeyRow) -> Iterator[tables.Row]:
    found = sample.verification.corruptions if sample.verification else ()
    yield from (_filled(tables.CorruptionRow, of, each) for each in found)


def _figures(summary: Summary) -> Iterator[tables.Row]:
    for part in summary.cells:
        for operation, figure, estimate in _estimates(part):
            yield _filled(
                tables.FigureRow,
                estimate.shown,
                run_id=summary.run.id,
                cell_key=part.cell.key,
                operation=operation,
                figure=figure,
            )


def _estimates(part: CellSummary) -> Iterator[tuple[str | None, str, Estimate]]:
    yield None, "completed_per_s", part.iops
    yield None, "transferred_bytes_per_s", part.bandwidth
    for operation, figures in part.latency.items():
        for name, estimate in figures.items():
            yield operation, name, estimate


def _findings(summary: Summary) -> Iterator[tables.Row]:
    for position, finding in enumerate(summary.findings):
        yield _filled(tables.FindingRow, finding, run_id=summary.run.id, position=position)


_OF_SAMPLES: Final[Mapping[str, Callable[[Sample, tables.SampleKeyRow], Iterator[tables.Row]]]] = {
    "samples": _sample,
    "operations": _operations,
    "buckets": _buckets,
    "slices": _slices,
    "slice_buckets": _slice_buckets,
    "series": _series,
    "counters": _counters,
    "stalls": _stalls,
    "errors": _errors,
    "corruptions": _corruptions,
}
_ANALYSED: Final[Mapping[str, Callable[[Summary], Iterator[tables.Row]]]] = {
    "figures": _figures,
    "findings": _findings,
}
