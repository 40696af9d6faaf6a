"""The results file: every run and every sample, committed as it ends.

This module and schema.py are the only ones that know SQL. docs/results-file.md describes the
tables for those who read them with other tools.
"""

from __future__ import annotations

import os
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from seatrial.errors import FullResultsFileError, RefusedError, ResultsFileError, UsageError
from seatrial.processes import Owner
from seatrial.results import opening, rows
from seatrial.results.model import Run, Sample
from seatrial.results.rescue import (
    Identity,
    copy_to,
    folders_elsewhere,
    full,
    identity_of,
    lost,
    rescue,
)
from seatrial.study.cell import Cell

# The columns of a cell beside those of its sample: results/rows.py takes them apart again.
_CELL_COLUMNS = ", ".join(
    f"cell.{name} AS cell_{name}"
    for name in (
        "run_id",
        "key",
        "target",
        "workload",
        "kind",
        "operation",
        "block_size_bytes",
        "threads",
        "depth",
        "factors_json",
        "spec_json",
    )
)
_OF_RUN_AND_WORKLOAD = """
    JOIN cell ON cell.id = sample.cell_id
    WHERE cell.run_id = ? AND cell.workload = coalesce(?, cell.workload)
"""


class ResultsFile:
    """One results file; a context manager that closes it.

    Made by :meth:`open`. All methods raise :class:`~seatrial.errors.ResultsFileError` when the
    file is damaged, locked, full or read-only.

    Attributes:
        path: Where it is. A file that somebody removes, moves or replaces while it is written to
            goes on under another name, with all that it held; so does one that has no room for a
            sample.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, *, is_new: bool = False) -> None:
        self.path = path
        self._connection = connection
        self._is_new = is_new
        self._first_path = path
        self._lost: list[tuple[Path, sqlite3.Connection]] = []
        self._identity: Identity | None = None

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, create: bool = False, read_only: bool = False
    ) -> ResultsFile:
        """Open the results file at ``path``.

        Args:
            path: The file.
            create: Make it if it is missing.
            read_only: Neither create nor change it; other processes may go on writing to it.

        Raises:
            ResultsFileError: Missing, not ours, of a newer schema, damaged, locked or in a place
                where nothing can be written.
        """
        place = Path(path)
        if read_only:
            return cls(place, opening.reader(place))
        is_new = not place.exists()
        store = cls(place, opening.writer(place, create=create), is_new=is_new)
        store._identity = identity_of(place)
        return store

    @property
    def is_moved(self) -> bool:
        """Whether it goes on under another name than that by which it was opened."""
        return self.path != self._first_path

    def close(self) -> None:
        """Close the file; the last to close it leaves one file with nothing beside it.

        Raises:
            ResultsFileError: The file that was opened is gone; another one holds what it held.
        """
        self._follow()
        opening.close(self._connection)
        if self._lost:
            raise lost(self._lost[0][0], self.path)

    def __enter__(self) -> ResultsFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # A file made for a run that never began would only puzzle its finder.
        if self._is_new and error is not None and not self.runs():
            opening.close(self._connection)
            self.path.unlink(missing_ok=True)
            return
        try:
            self.close()
        except ResultsFileError as loss:
            if error is None:
                raise
            error.add_note(str(loss))

    def start_run(self, run: Run) -> None:
        """Store a run before its first sample; where it is running, as one of this process.

        Raises:
            ResultsFileError: A run of this id is there already.
        """
        if run.status == rows.RUNNING:
            run = msgspec.structs.replace(run, process=Owner.current().without_host())
        with self._writing():
            self._insert_run(run)

    def add_run(self, run: Run, samples: Sequence[Sample]) -> None:
        """Store a whole run that was measured elsewhere: all of it, or nothing.

        Raises:
            ResultsFileError: A run of this id is there already, or two samples are of the same
                cell and round.
        """
        with self._writing():
            self._insert_run(run)
            for sample in samples:
                self._insert_sample(run.id, sample)

    def join_run(self, run: Run, samples: Sequence[Sample]) -> None:
        """Store how a stored run went on elsewhere: all of it, or nothing.

        Samples of cells and rounds that are there already stay as they are.

        Raises:
            ResultsFileError: There is no such run.
        """
        done = self.done(run.id)
        with self._writing():
            self._change_run(run.id, rows.run_columns(run))
            for sample in samples:
                if (sample.cell.key, sample.round) not in done:
                    self._insert_sample(run.id, sample)

    def resume_run(self, run_id: str) -> None:
        """Mark a stored run as running again, in this process, after it was killed or interrupted.

        Raises:
            RefusedError: Another process is measuring it.
            ResultsFileError: There is no such run.
        """
        own = Owner.current().without_host()
        for run in self.runs():
            if run.id == run_id and run.status == rows.RUNNING and run.process != own:
                raise _still_running(run)
        process = msgspec.json.encode(own).decode()
        columns = {"status": rows.RUNNING, "ended_at": None, "process_json": process}
        self._update_run(run_id, columns)

    def drop_run(self, run_id: str) -> None:
        """Take out a run that has no samples, as if it had never been begun.

        Raises:
            ResultsFileError: There is no such run, or it has samples.
        """
        with self._writing():
            self._require_run(run_id)
            self._connection.execute("DELETE FROM run WHERE id = ?", (run_id,))

    def note_target(self, run_id: str, label: str, facts: dict[str, Any]) -> None:
        """Store what the fingerprint holds of a target that did not exist when the run began.

        What is known of it already stays.

        Args:
            run_id: A stored run.
            label: Of the target.
            facts: As the fingerprint's ``target``.

        Raises:
            ResultsFileError: There is no such run.
        """
        with self._writing():
            self._require_run(run_id)
            row = self._row("SELECT fingerprint_before_json FROM run WHERE id = ?", run_id)
            before = msgspec.json.decode(row["fingerprint_before_json"]) if row else {}
            others = before.setdefault("other_targets", {})
            others.setdefault(label, facts)
            self._connection.execute(
                "UPDATE run SET fingerprint_before_json = ? WHERE id = ?",
                (msgspec.json.encode(before).decode(), run_id),
            )

    def finish_run(
        self, run_id: str, status: str, ended_at: float, fingerprint_after: dict[str, Any]
    ) -> None:
        """Store how a run ended.

        Args:
            run_id: A stored run.
            status: ``complete``, ``interrupted`` or ``failed``.
            ended_at: Unix time in seconds.
            fingerprint_after: What changed or aged meanwhile.
        """
        after = msgspec.json.encode(fingerprint_after).decode()
        columns = {
            "status": status,
            "ended_at": ended_at,
            "fingerprint_after_json": after,
            "process_json": "null",
        }
        self._update_run(run_id, columns)

    def add_sample(self, run_id: str, sample: Sample) -> Sample:
        """Store a sample; when this returns, it outlives a kill and a power failure.

        The cell is stored with its first sample.

        Returns:
            The sample with its ``id`` and ``run_id``.

        Raises:
            ResultsFileError: The run is not stored, or this cell and round are there already.
            FullResultsFileError: Its file system is full. The sample is stored in a file elsewhere
                with all that this one held, and whatever is stored next goes there, too.
        """
        try:
            sample_id = self._add_sample(run_id, sample)
        except FullResultsFileError:
            former = self.path
            is_kept = self._add_elsewhere(run_id, sample)
            raise full(former, self.path if is_kept else None) from None
        return msgspec.structs.replace(sample, id=sample_id, run_id=run_id)

    def _add_sample(self, run_id: str, sample: Sample) -> int:
        with self._writing():
            self._require_run(run_id)
            return self._insert_sample(run_id, sample)

    def _add_elsewhere(self, run_id: str, sample: Sample) -> bool:
        """Store a sample and all before it where there is room; tell whether there is any."""
        former, former_path = self._connection, self.path
        for folder in folders_elsewhere(former_path):
            new = None
            try:
                new = copy_to(folder, former_path, former)
                self._go_on_in(new)
                self._add_sample(run_id, sample)
            except (OSError, sqlite3.Error, ResultsFileError):
                if self._connection is not former:
                    opening.close(self._connection)
                self._connection, self.path = former, former_path
                self._identity = identity_of(former_path)
                if new:
                    new.unlink(missing_ok=True)
            else:
                opening.close(former)
                return True
        return False

    def runs(self) -> list[Run]:
        """Return all runs, the newest first."""
        with self._reading():
            found = self._connection.execute("SELECT * FROM run ORDER BY started_at DESC, id DESC")
            return [rows.run_of(row) for row in found]

    def run(self, reference: str) -> Run:
        """Return one run.

        Args:
            reference: ``last`` for the newest, an id, a label (of several the newest run), or
                the first characters of an id, if no other id begins so. Tried in this order.

        Raises:
            UsageError: No run fits, or several ids begin so.
        """
        runs = self.runs()
        if reference == "last" and runs:
            return runs[0]
        for fits in (_has_id, _has_label):
            exact = [run for run in runs if fits(run, reference)]
            if exact:
                return exact[0]
        begun = [run for run in runs if reference and run.id.startswith(reference)]
        if len(begun) != 1:
            raise self._no_single_run(reference, begun)
        return begun[0]

    def samples(
        self, run_id: str, workload: str | None = None, *, slices_min: int = 0
    ) -> list[Sample]:
        """Return the samples of a run in the order in which they were measured.

        Args:
            run_id: The full id of a run; one that is not stored has no samples.
            workload: Only those of this workload of the study.
            slices_min: The timeline of a sample that lasted for fewer slices is left empty, for
                those whom it tells nothing: it is most of what there is to read.
        """
        query = f"SELECT sample.*, {_CELL_COLUMNS} FROM sample {_OF_RUN_AND_WORKLOAD}"  # noqa: S608
        with self._reading():
            parts = {table: self._parts(table, run_id, workload) for table in rows.PARTS}
            found = self._connection.execute(f"{query} ORDER BY sample.id", (run_id, workload))
            cells: dict[int, Cell] = {}
            samples = []
            for row in found:
                cell = cells.get(row["cell_id"]) or cells.setdefault(
                    row["cell_id"], rows.cell_of(row)
                )
                own = {table: parts[table][row["id"]] for table in rows.PARTS}
                samples.append(rows.sample_of(row, cell, own, slices_min=slices_min))
            return samples

    def done(self, run_id: str) -> set[tuple[str, int]]:
        """Return the cell keys and rounds that a run has samples of, for a resume."""
        with self._reading():
            found = self._connection.execute(
                "SELECT cell.key, sample.round FROM sample "
                "JOIN cell ON cell.id = sample.cell_id WHERE cell.run_id = ?",
                (run_id,),
            )
            return {(row["key"], row["round"]) for row in found}

    def find_resumable(self, plan_hash: str, target_paths: Sequence[str]) -> Run | None:
        """Return the newest run of a plan on these targets if it did not complete, else None.

        A run that completed is never reopened, and no older one is resumed past it.

        Args:
            plan_hash: The plan; it is the same on other targets, so that they can be compared.
            target_paths: Paths of the study's targets, or addresses where they are servers, in
                its order; samples of another place never join a run.
        """
        own = (run for run in self.runs() if run.plan_hash == plan_hash)
        newest = next((run for run in own if _target_paths(run) == list(target_paths)), None)
        return None if newest is None or newest.status == "complete" else newest

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Run the block in one transaction: all of it is stored, or nothing."""
        self._follow()
        with opening.explained(self.path, self._connection):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _follow(self) -> None:
        """Go on in a new file where the one that is written to is not at its path any more."""
        if self._identity is None or identity_of(self.path) == self._identity:
            return
        new = rescue(self.path, self._connection)
        # It stays open: to close it would be to remove files of its name that may be another's.
        self._lost.append((self.path, self._connection))
        self._go_on_in(new)

    def _go_on_in(self, path: Path) -> None:
        """Write to another file from now on, which holds all that this one held."""
        self._connection = opening.writer(path, create=False)
        self.path = path
        self._identity = identity_of(path)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Run the block on one state of the file, whatever another process commits meanwhile."""
        with opening.explained(self.path, self._connection):
            self._connection.execute("BEGIN DEFERRED")
            try:
                yield
            except (TypeError, ValueError) as error:
                # Rows that SQLite holds to be whole, but whose content is not what we write.
                raise opening.damaged(self.path, str(error)) from error
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _row(self, query: str, *values: str | int) -> sqlite3.Row | None:
        row: sqlite3.Row | None = self._connection.execute(query, values).fetchone()
        return row

    def _insert(self, table: str, columns: rows.Columns) -> int:
        names = ", ".join(columns)
        places = ", ".join(f":{name}" for name in columns)
        statement = f"INSERT INTO {table} ({names}) VALUES ({places})"  # noqa: S608 - our names
        return int(self._connection.execute(statement, columns).lastrowid or 0)

    def _insert_run(self, run: Run) -> None:
        if self._row("SELECT id FROM run WHERE id = ?", run.id) is not None:
            raise ResultsFileError(
                seen=f"The results file {self.path} already holds a run {run.id}.",
                cause="Two runs were started with the same id.",
                next_step="Start the run again; it draws a new id.",
            )
        self._insert("run", rows.run_columns(run))

    def _insert_sample(self, run_id: str, sample: Sample) -> int:
        cell_id = self._cell_id(run_id, sample)
        self._refuse_second(run_id, cell_id, sample)
        sample_id = self._insert("sample", rows.sample_columns(cell_id, sample))
        for table, columns in rows.part_columns(sample):
            self._insert(table, columns | {"sample_id": sample_id})
        return sample_id

    def _update_run(self, run_id: str, columns: rows.Columns) -> None:
        with self._writing():
            self._change_run(run_id, columns)

    def _change_run(self, run_id: str, columns: rows.Columns) -> None:
        self._require_run(run_id)
        changes = ", ".join(f"{name} = :{name}" for name in columns)
        self._connection.execute(
            f"UPDATE run SET {changes} WHERE id = :id",  # noqa: S608 - our names
            columns | {"id": run_id},
        )

    def _require_run(self, run_id: str) -> None:
        if self._row("SELECT id FROM run WHERE id = ?", run_id) is None:
            raise ResultsFileError(
                seen=f"The results file {self.path} holds no run {run_id}.",
                cause="The run was never stored here, or the file was exchanged meanwhile.",
                next_step="List its runs: seatrial list",
            )

    def _cell_id(self, run_id: str, sample: Sample) -> int:
        query = "SELECT id FROM cell WHERE run_id = ? AND key = ?"
        row = self._row(query, run_id, sample.cell.key)
        if row is not None:
            return int(row["id"])
        return self._insert("cell", rows.cell_columns(run_id, sample.cell))

    def _refuse_second(self, run_id: str, cell_id: int, sample: Sample) -> None:
        query = "SELECT id FROM sample WHERE cell_id = ? AND round = ?"
        if self._row(query, cell_id, sample.round) is not None:
            raise ResultsFileError(
                seen=f"Run {run_id} already has a sample of {sample.cell.key}, "
                f"round {sample.round}.",
                cause="Two processes are measuring the same run, one of them by --resume.",
                next_step="Let one of them finish; then look at the run: seatrial list",
            )

    def _parts(self, table: str, run_id: str, workload: str | None) -> dict[int, list[sqlite3.Row]]:
        """Return the rows of one table of parts by sample, in the order of their adding."""
        query = f"SELECT {table}.* FROM {table} JOIN sample ON sample.id = sample_id"  # noqa: S608
        found = self._connection.execute(
            f"{query} {_OF_RUN_AND_WORKLOAD} ORDER BY {table}.rowid", (run_id, workload)
        )
        grouped: dict[int, list[sqlite3.Row]] = defaultdict(list)
        for row in found:
            grouped[row["sample_id"]].append(row)
        return grouped

    def _no_single_run(self, reference: str, begun: list[Run]) -> UsageError:
        if begun:
            ids = ", ".join(run.id for run in begun)
            seen = f"{len(begun)} runs in {self.path} begin with {reference}: {ids}."
            cause = "The reference is too short to tell them apart."
        else:
            seen = f"{self.path} holds no run {reference!r}."
            cause = "A run is named by its id, the beginning of its id, its label, or last."
        return UsageError(seen=seen, cause=cause, next_step="List the runs: seatrial list")


def _still_running(run: Run) -> RefusedError:
    pid = run.process.pid if run.process else "unknown"
    return RefusedError(
        seen=f"The run {run.id} is being measured by process {pid}",
        cause="Two processes at the same run would measure each other's load",
        next_step="Wait for that process or end it, then try again",
    )


def _has_id(run: Run, reference: str) -> bool:
    return run.id == reference


def _target_paths(run: Run) -> list[str]:
    targets = run.study.get("target", [])
    return [str(target.get("path") or target.get("url") or "") for target in targets]


def _has_label(run: Run, reference: str) -> bool:
    return bool(reference) and run.label == reference
