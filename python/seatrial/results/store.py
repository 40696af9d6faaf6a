"""The results file: every run and every sample, committed as it ends.

Only this module and schema.py contain SQL. docs/results-file.md describes the tables for those who
read them with other tools.

A file that is deleted while open remains readable until it is closed, and its content is copied to
another file. So it is when the file system has no space for the next sample.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from seatrial.errors import FullResultsFileError, RefusedError, ResultsFileError, UsageError
from seatrial.fingerprint import Fingerprint, FingerprintAfter, Target
from seatrial.process_identity import OwnerProcess
from seatrial.results import opening, rows
from seatrial.results.model import Run, Sample
from seatrial.study.cell import Cell

Identity = tuple[int, int]
"""Device and inode of a file."""

_NAMES_MAX = 100


def identity_of(path: Path) -> Identity | None:
    """Return the identity of the file at a path; None if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def rescue(path: Path, connection: sqlite3.Connection) -> Path:
    """Copy the content of an open file into a new one; return its path.

    It is created in the folder of the file, else in the current one, else in that of temporary
    files.

    Args:
        path: Original path of the file.
        connection: Connection to the file.

    Raises:
        ResultsFileError: No new file can be created.
    """
    reason = ""
    for folder in (path.parent, Path.cwd(), Path(tempfile.gettempdir())):
        try:
            return copy_to(folder, path, connection)
        except (OSError, sqlite3.Error) as error:
            reason = f"{folder}: {getattr(error, 'strerror', None) or error}"
    raise ResultsFileError(
        seen=f"The results file {path} was removed during the run and cannot be written again: "
        f"{reason}",
        cause="Another process removed, moved or replaced it, and no other directory can store "
        "its contents",
        next_step="Look for it under another name, then measure again",
    )


def copy_to(folder: Path, path: Path, connection: sqlite3.Connection) -> Path:
    """Copy the content of an open file into a new one in a folder; return its path.

    Raises:
        OSError: No file can be created there.
        sqlite3.Error: It cannot be written.
    """
    new = _new_file(folder, path)
    try:
        copy = sqlite3.connect(new)
        connection.backup(copy)
        copy.close()
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise
    return new


def folders_elsewhere(path: Path) -> list[Path]:
    """Return folders on other file systems than that of a file, which may have space for it."""
    found = []
    full = path.parent.stat().st_dev
    for folder in (Path.cwd(), Path.home(), Path(tempfile.gettempdir())):
        with suppress(OSError):
            if folder.stat().st_dev != full:
                found.append(folder)
    return found


def full(path: Path, now: Path | None) -> FullResultsFileError:
    """Return the error for a file without space for a sample.

    Args:
        path: The file.
        now: The new file with all content including the sample; None where no folder had space.
    """
    where = (
        f"All measured results are in {now}"
        if now
        else (
            "The last sample is lost, as no other directory has space for it; all earlier "
            "samples are intact"
        )
    )
    resume = f', or continue in the new file: `--results "{now}" --resume`' if now else ""
    return FullResultsFileError(
        seen=f"No space left on {path.parent}, which holds the results file {path.name}. {where}",
        cause="The file system of the results file is full, which may differ from the one under "
        "test",
        next_step=f'Free some space (`df -h "{path.parent}"`) and resume the run{resume}',
    )


def lost(path: Path, now: Path) -> ResultsFileError:
    """Return the error for a deleted file, whose content is in another one."""
    return ResultsFileError(
        seen=f"The results file {path} was removed, moved or replaced during the run. All its "
        f"contents and all measured results are in {now}",
        cause="Another process did this while this run was writing to it",
        next_step=f'Check it with `seatrial list --results "{now}"`, and rename it as needed',
    )


def _new_file(folder: Path, path: Path) -> Path:
    """Create an empty file with an unused name.

    Raises:
        OSError: It cannot be created there.
    """
    for number in range(1, _NAMES_MAX):
        new = folder / f"{path.stem}-rescued-{number}{path.suffix}"
        with suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            os.close(os.open(new, flags, 0o666))
            return new
    raise FileExistsError(0, f"{_NAMES_MAX} rescued files already exist")


# The columns of a cell, joined to those of its sample: results/rows.py separates them.
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
_SAMPLES_OF_RUN = """
    JOIN cell ON cell.id = sample.cell_id
    WHERE cell.run_id = ? AND cell.workload = coalesce(?, cell.workload)
"""


class ResultsFile:
    """One results file; a context manager that closes it.

    Created by :meth:`open`. All methods raise :class:`~seatrial.errors.ResultsFileError` when the
    file is damaged, locked, full or read-only.

    Attributes:
        path: Its path. If the file is deleted, moved or replaced while it is written to, or has no
            space for a sample, its content continues in a new file at another path.
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
            create: Create it if it is missing.
            read_only: Neither create nor change it; other processes may go on writing to it.

        Raises:
            ResultsFileError: Missing, not ours, of a newer schema, damaged, locked or in a folder
                that is not writable.
        """
        file = Path(path)
        with suppress(OSError):  # A folder that may not be entered is explained below.
            if file.is_symlink():
                # Folder, space and SQLite's own files are those of the file behind the link.
                file = Path(os.path.realpath(file))
        if read_only:
            return cls(file, opening.reader(file))
        is_new = identity_of(file) is None
        store = cls(file, opening.writer(file, create=create), is_new=is_new)
        store._identity = identity_of(file)
        return store

    @property
    def is_moved(self) -> bool:
        """Whether its content continues in another file than the one opened."""
        return self.path != self._first_path

    def close(self) -> None:
        """Close the file; the last to close it leaves a single file.

        Raises:
            ResultsFileError: The opened file was deleted; another one has its content.
        """
        self._follow()
        opening.close(self._connection)
        if self._lost:
            raise lost(self._lost[0][0], self.path)

    def __enter__(self) -> ResultsFile:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # An empty file, created for a run that never began, would only puzzle its finder.
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
        """Store a run before its first sample; a running one as measured by this process.

        Raises:
            ResultsFileError: A run with this id exists already.
        """
        if run.status == rows.RUNNING:
            run = msgspec.structs.replace(run, process=OwnerProcess.current().without_host())
        with self._writing():
            self._insert_run(run)

    def add_run(self, run: Run, samples: Sequence[Sample]) -> None:
        """Store a whole run that was measured elsewhere, atomically.

        Raises:
            ResultsFileError: A run with this id exists already, or two samples are of the same cell
                and round.
        """
        with self._writing():
            self._insert_run(run)
            for sample in samples:
                self._insert_sample(run.id, sample)

    def join_run(self, run: Run, samples: Sequence[Sample]) -> None:
        """Store the continuation of a stored run that was measured elsewhere, atomically.

        Samples of existing cells and rounds are unchanged, and so are the run's label and note.

        Raises:
            ResultsFileError: The run does not exist.
        """
        done = self.done(run.id)
        columns = rows.run_columns(run)
        with self._writing():
            self._change_run(run.id, {k: v for k, v in columns.items() if k not in rows.EDITABLE})
            for sample in samples:
                if (sample.cell.key, sample.round) not in done:
                    self._insert_sample(run.id, sample)

    def resume_run(self, run_id: str) -> None:
        """Mark a killed or interrupted run as running again, in this process.

        Raises:
            RefusedError: Another process is measuring it.
            ResultsFileError: The run does not exist.
        """
        own = OwnerProcess.current().without_host()
        for run in self.runs():
            if run.id == run_id and run.status == rows.RUNNING and run.process != own:
                raise _still_running(run)
        process = msgspec.json.encode(own).decode()
        columns = {"status": rows.RUNNING, "ended_at": None, "process_json": process}
        self._update_run(run_id, columns)

    def drop_run(self, run_id: str) -> None:
        """Remove a run that has no samples.

        Raises:
            ResultsFileError: The run does not exist, or it has samples.
        """
        with self._writing():
            self._require_run(run_id)
            self._connection.execute("DELETE FROM run WHERE id = ?", (run_id,))

    def edit_run(self, run_id: str, *, label: str | None = None, note: str | None = None) -> None:
        """Change the label or note of a run; allowed while it is running.

        Args:
            run_id: The full id of a stored run.
            label: The new label, empty for none; None keeps it.
            note: The new note, empty for none; None keeps it.

        Raises:
            ResultsFileError: The run does not exist.
        """
        changes = {"label": label, "note": note}
        columns: rows.Columns = {k: v for k, v in changes.items() if v is not None}
        self._update_run(run_id, columns | {"edited_at": time.time()})

    def delete_runs(self, run_ids: Sequence[str]) -> None:
        """Delete runs with all their samples, atomically.

        The file shrinks unless another process is using it; then later runs use the space.

        Args:
            run_ids: Full ids.

        Raises:
            RefusedError: One of them is being measured.
            ResultsFileError: One of them does not exist.
        """
        with self._writing():
            for run_id in run_ids:
                self._require_run(run_id)
                row = self._row("SELECT * FROM run WHERE id = ?", run_id)
                if row and (run := rows.run_of(row)).status == rows.RUNNING:
                    raise _still_running(run)
                self._delete_run(run_id)
        with suppress(sqlite3.Error):
            self._connection.execute("PRAGMA busy_timeout = 0")
            self._connection.execute("VACUUM")
        with suppress(sqlite3.Error):
            timeout_ms = int(opening.LOCK_TIMEOUT_S * 1000)
            self._connection.execute(f"PRAGMA busy_timeout = {timeout_ms}")

    def _delete_run(self, run_id: str) -> None:
        samples = "SELECT sample.id FROM sample JOIN cell ON cell.id = cell_id WHERE run_id = ?"
        for table in rows.PARTS:
            statement = f"DELETE FROM {table} WHERE sample_id IN ({samples})"  # noqa: S608 - ours
            self._connection.execute(statement, (run_id,))
        self._connection.execute(
            "DELETE FROM sample WHERE cell_id IN (SELECT id FROM cell WHERE run_id = ?)", (run_id,)
        )
        self._connection.execute("DELETE FROM cell WHERE run_id = ?", (run_id,))
        self._connection.execute("DELETE FROM run WHERE id = ?", (run_id,))

    def note_target(self, run_id: str, label: str, found: Target) -> None:
        """Store the fingerprint of a target that did not exist when the run began.

        Existing information on it is kept.

        Args:
            run_id: A stored run.
            label: The target's label.
            found: Its fingerprint.

        Raises:
            ResultsFileError: The run does not exist.
        """
        with self._writing():
            self._require_run(run_id)
            row = self._row("SELECT fingerprint_before_json FROM run WHERE id = ?", run_id)
            stored = row["fingerprint_before_json"] if row else "{}"
            before = msgspec.json.decode(stored, type=Fingerprint)
            others = {label: found, **before.other_targets}
            before = msgspec.structs.replace(before, other_targets=others)
            self._connection.execute(
                "UPDATE run SET fingerprint_before_json = ? WHERE id = ?",
                (msgspec.json.encode(before).decode(), run_id),
            )

    def finish_run(
        self, run_id: str, status: str, ended_at: float, fingerprint_after: FingerprintAfter
    ) -> None:
        """Store the end of a run.

        Args:
            run_id: A stored run.
            status: ``complete``, ``interrupted`` or ``failed``.
            ended_at: Unix time in seconds.
            fingerprint_after: What changed meanwhile.
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
        """Store a sample; when this returns, it survives a kill and a power failure.

        The cell is stored with its first sample.

        Returns:
            The sample with its ``id`` and ``run_id``.

        Raises:
            ResultsFileError: The run is not stored, or this cell and round exist already.
            FullResultsFileError: Its file system is full. The sample is stored in another file with
                the content of this one; later samples are stored there, too.
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
        """Store a sample and the file's content elsewhere; return whether a folder had space."""
        former, former_path = self._connection, self.path
        for folder in folders_elsewhere(former_path):
            new = None
            try:
                new = copy_to(folder, former_path, former)
                self._continue_in(new)
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

    def run_ids(self) -> list[str]:
        """Return the ids of all runs, the oldest first."""
        with self._reading():
            found = self._connection.execute("SELECT id FROM run ORDER BY started_at, id")
            return [row["id"] for row in found]

    def run(self, reference: str) -> Run:
        """Return one run.

        Args:
            reference: An id, ``last`` for the newest, a label (the newest of several runs), or a
                    unique prefix of an id. Tried in this order.

        Raises:
            UsageError: No run matches, or several ids begin so.
        """
        with self._reading():
            row = self._row("SELECT * FROM run WHERE id = ?", reference)
            if row is not None:
                return rows.run_of(row)
        runs = self.runs()
        if reference == "last" and runs:
            return runs[0]
        labelled = [run for run in runs if reference and run.label == reference]
        if labelled:
            return labelled[0]
        begun = [run for run in runs if reference and run.id.startswith(reference)]
        if len(begun) != 1:
            raise self._no_single_run(reference, begun)
        return begun[0]

    def samples(
        self, run_id: str, workload: str | None = None, *, slices_min: int = 0
    ) -> list[Sample]:
        """Return the samples of a run in the order in which they were measured.

        Args:
            run_id: The full id of a run; an unknown run has no samples.
            workload: Only those of this workload of the study.
            slices_min: The timeline of a sample with fewer slices is left empty, for callers that
                do not need it: it is most of the data.
        """
        query = f"SELECT sample.*, {_CELL_COLUMNS} FROM sample {_SAMPLES_OF_RUN}"  # noqa: S608
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
        """Return the cell keys and rounds of a run's samples, for a resume."""
        with self._reading():
            found = self._connection.execute(
                "SELECT cell.key, sample.round FROM sample "
                "JOIN cell ON cell.id = sample.cell_id WHERE cell.run_id = ?",
                (run_id,),
            )
            return {(row["key"], row["round"]) for row in found}

    def find_resumable(self, plan_hash: str, target_paths: Sequence[str]) -> Run | None:
        """Return the newest run of a plan on these targets if it is not complete, else None.

        A run that completed is never reopened, and no older one is resumed past it.

        Args:
            plan_hash: The plan; it is the same on other targets, so that they can be compared.
            target_paths: Paths of the study's targets, or addresses of servers, in its order;
                samples of other targets never join a run.
        """
        own = (run for run in self.runs() if run.plan_hash == plan_hash)
        newest = next((run for run in own if _target_paths(run) == list(target_paths)), None)
        return None if newest is None or newest.status == "complete" else newest

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Run the block in one transaction."""
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
        """Continue in a new file if the current one is no longer at its path."""
        if self._identity is None or identity_of(self.path) == self._identity:
            return
        new = rescue(self.path, self._connection)
        # It stays open: closing it would remove files of its name that may be another's.
        self._lost.append((self.path, self._connection))
        self._continue_in(new)

    def _continue_in(self, path: Path) -> None:
        """Switch to another file, which has the content of this one."""
        self._connection = opening.writer(path, create=False)
        self.path = path
        self._identity = identity_of(path)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Run the block on one snapshot of the file."""
        with opening.explained(self.path, self._connection):
            self._connection.execute("BEGIN DEFERRED")
            try:
                yield
            except (TypeError, ValueError) as error:
                # Rows that are valid for SQLite, but with invalid content.
                raise opening.damaged(self.path, str(error)) from error
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _row(self, query: str, *values: str | int) -> sqlite3.Row | None:
        row: sqlite3.Row | None = self._connection.execute(query, values).fetchone()
        return row

    def _insert(self, table: str, columns: rows.Columns) -> int:
        names = ", ".join(columns)
        values = ", ".join(f":{name}" for name in columns)
        statement = f"INSERT INTO {table} ({names}) VALUES ({values})"  # noqa: S608 - our names
        return int(self._connection.execute(statement, columns).lastrowid or 0)

    def _insert_run(self, run: Run) -> None:
        if self._row("SELECT id FROM run WHERE id = ?", run.id) is not None:
            raise ResultsFileError(
                seen=f"The results file {self.path} already contains a run {run.id}.",
                cause="Two runs were started with the same id.",
                next_step="Start the run again; it gets a new id.",
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
                seen=f"The results file {self.path} contains no run {run_id}.",
                cause="The run was never stored in it, or the file was replaced.",
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
                seen=f"Run {run_id} already has a sample of {sample.cell.key}, round "
                f"{sample.round}.",
                cause="Two processes are measuring the same run, one of them with --resume.",
                next_step="Let one of them finish; then check the run: seatrial list",
            )

    def _parts(self, table: str, run_id: str, workload: str | None) -> dict[int, list[sqlite3.Row]]:
        """Return the rows of one table of parts by sample, in insertion order."""
        query = f"SELECT {table}.* FROM {table} JOIN sample ON sample.id = sample_id"  # noqa: S608
        found = self._connection.execute(
            f"{query} {_SAMPLES_OF_RUN} ORDER BY {table}.rowid", (run_id, workload)
        )
        grouped: dict[int, list[sqlite3.Row]] = defaultdict(list)
        for row in found:
            grouped[row["sample_id"]].append(row)
        return grouped

    def _no_single_run(self, reference: str, begun: list[Run]) -> UsageError:
        if begun:
            ids = ", ".join(run.id for run in begun)
            seen = f"{len(begun)} runs in {self.path} begin with {reference}: {ids}."
            cause = "The reference is ambiguous."
        else:
            seen = f"{self.path} contains no run {reference!r}."
            cause = "A run is identified by its id, the beginning of its id, its label, or last."
        return UsageError(seen=seen, cause=cause, next_step="List the runs: seatrial list")


def _still_running(run: Run) -> RefusedError:
    pid = run.process.pid if run.process else "unknown"
    return RefusedError(
        seen=f"Process {pid} is measuring the run {run.id}",
        cause="Two processes with the same run would disturb each other's measurements",
        next_step="Wait for that process or end it, then retry",
    )


def _target_paths(run: Run) -> list[str]:
    targets = run.study.get("target", [])
    return [str(target.get("path") or target.get("url") or "") for target in targets]
