"""Cells as a job file of fio, to cross-check them with fio.

One job per cell, named by its key, each alone on the target (``stonewall``). A comment above a job
states differences between fio and the cell; a cell without an equivalent in fio is only a comment.
``seatrial import`` of the result gives the same cells again.

Sizes are written in bytes and runtimes in milliseconds: ``k`` and ``KiB`` mean different things to
different versions of fio, which accepts no fractions of a second. Options are those of fio
3.33 (its HOWTO).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

import msgspec

from seatrial import _core
from seatrial.errors import UsageError
from seatrial.findings.model import Summary
from seatrial.results.model import Run, origin_of
from seatrial.stats.wording import DATABASE_OPERATIONS, FILES
from seatrial.study.cell import Cell
from seatrial.study.model import LOG_FILE, Plan
from seatrial.study.spec import SpecAccess, SpecAddress, SpecLimit, SpecSize

FILE_NAME: Final = "seatrial-fio.dat"
LOG_NAME: Final = "seatrial-fio-log.dat"
SIZE_BYTES: Final = 1 << 30
RUNTIME_S: Final = 10.0
_DIRECTIONS: Final = {(True, False): "read", (False, True): "write", (True, True): "rw"}
GLOBAL: Final = """[global]
group_reporting=1
thread=1
norandommap=1
"""

Options = dict[str, str]


class JobTarget(msgspec.Struct, frozen=True):
    """The files of a target's jobs.

    Attributes:
        path: Directory, device or file; empty if unknown.
        holds_files: Whether fio makes files of its own there.
        size_bytes: Size of the trial file.
    """

    path: str
    holds_files: bool
    size_bytes: int

    def file(self, name: str) -> str:
        """Return the path of a file of fio; the target itself if that is a device or a file."""
        if not self.holds_files and self.path:
            return self.path
        # A colon separates the names of several files.
        return str(PurePosixPath(self.path or ".") / name).replace(":", "\\:")


def render(summary: Summary) -> str:
    """Return the cells of a run as a job file of fio.

    Raises:
        UsageError: when fio has words for none of them.
    """
    run = summary.run
    cells = [part.cell for part in summary.cells]
    job_targets = {cell.target: _target_of_run(run, cell) for cell in cells}
    return _job_file(f"run {run.id} ({run.study_name})", run.seed, cells, job_targets)


def render_plan(plan: Plan) -> str:
    """Return the cells of a plan as a job file of fio.

    Raises:
        UsageError: when fio has words for none of them.
    """
    job_targets = {
        target.label: JobTarget(target.path, target.holds_files, target.size_bytes)
        for target in plan.targets
    }
    return _job_file(f"study {plan.study.name}", plan.study.seed, plan.cells, job_targets)


def _target_of_run(run: Run, cell: Cell) -> JobTarget:
    targets = [t for t in run.study.get("target", []) if t.get("label") == cell.target]
    target = cell.parsed.target
    origin = origin_of(run)
    size_bytes = target.size_bytes or (origin.file_bytes if origin else None) or SIZE_BYTES
    if not targets:
        path = target.path or ""
        return JobTarget(path, not path, size_bytes)
    path = str(targets[0].get("path") or "")
    kind = targets[0].get("kind")
    if kind == "auto":
        kind = run.fingerprint_before.target.kind if run.fingerprint_before.target else "directory"
    return JobTarget(path, kind not in ("device", "file"), int(size_bytes))


def _job_file(
    title: str, seed: int, cells: Sequence[Cell], job_targets: Mapping[str, JobTarget]
) -> str:
    head = [
        f"; The tests of {title}, written by seatrial {_core.__version__}.",
        "; Each job is one test, named by its key, and runs alone. To compare:",
        ";   fio --output-format=json+ --output=fio.json THIS_FILE",
        ";   seatrial import fio.json",
    ]
    if cells and all(_Job(cell, job_targets[cell.target]).missing() for cell in cells):
        raise nothing_for_fio(title)
    owned = {
        job_target.path
        for job_target in job_targets.values()
        if job_target.path and not job_target.holds_files
    }
    if owned and any(cell.operation != "read" for cell in cells):
        listed = ", ".join(sorted(owned))
        head.append(f"; CAUTION: these jobs write to {listed}; what it holds will be lost.")
    # A seed of fio has 64 bits and is not one of Seatrial's: the addresses differ, their
    # distribution does not.
    parts = ["\n".join(head), f"{GLOBAL}randseed={seed}"]
    parts += [_section(cell, job_targets[cell.target]) for cell in cells]
    return "\n\n".join(parts) + "\n"


def nothing_for_fio(what: str) -> UsageError:
    """Return the error for a run or a study without any test that fio can run."""
    return UsageError(
        seen=f"fio has no options for any test of {what}",
        cause="It makes requests of a known size and pattern to files and devices; "
        "it has no copies, databases or sets",
        next_step="Export it with --format json, csv or markdown",
    )


def _section(cell: Cell, job_target: JobTarget) -> str:
    """Return one job with the comments that belong to it."""
    job = _Job(cell, job_target)
    missing = job.missing()
    if missing:
        return f"; {cell.key}\n;   is left out: {missing}"
    options = job.options()
    lines = [f"; {comment}" for comment in job.comments]
    lines += [f"[{cell.key}]", "stonewall"]
    lines += [f"{name}={value}" for name, value in options.items()]
    return "\n".join(lines)


_ABSENT: Final = {
    "copy": "fio has no copy",
    FILES: "fio has no file workloads",
    **dict.fromkeys(DATABASE_OPERATIONS, "fio has no databases"),
}
"""Operations without an equivalent in fio, each with a sentence."""


def load_options(cell: Cell) -> Options:
    """Return engine, read share, distribution, durability and rate of a cell, as far as known."""
    return _Job(cell, JobTarget("", holds_files=True, size_bytes=SIZE_BYTES)).load()


class _Job:
    """Builds the job of one cell; ``comments`` state the differences of fio."""

    def __init__(self, cell: Cell, job_target: JobTarget) -> None:
        self.cell = cell
        self.spec = cell.parsed
        self.job_target = job_target
        self.accesses = self.spec.accesses or list(_accesses(cell))
        self.comments: list[str] = []

    def missing(self) -> str:
        """Return why fio cannot run the cell; empty if it can."""
        if self.cell.operation in _ABSENT:
            return _ABSENT[self.cell.operation]
        if self.spec.arrival.kind in ("bursts", "batches"):
            return "fio has no arrivals in bursts"
        if self.spec.streams:
            return "fio has one load per job, but the test has several streams"
        return self._missing_of_accesses()

    def _missing_of_accesses(self) -> str:
        kinds = {access.address.kind for access in self.accesses}
        is_stated = bool(self.spec.accesses or self.spec.fio_options)
        # fio takes a block size of 0 as 4 KiB.
        if not self.cell.block_size_bytes and not is_stated:
            return "its block size is unknown"
        if "unknown" in kinds:
            return "its pattern is unknown"
        if "one_pass" in kinds:
            return "fio has no pass that fills flash to its steady state"
        if len(kinds - {"random", "sequential"}) and len(kinds) > 1:
            return "fio has one pattern per job, but the test mixes several"
        return ""

    def options(self) -> Options:
        """Return the options of the job, in fio's usual order."""
        if self.spec.fio_options is not None:
            return self._original_options(self.spec.fio_options)
        cell = self.cell
        options = {"description": f"seatrial kind={cell.kind} target={cell.target}"}
        options |= self._range()
        options |= self._access()
        options |= {"numjobs": str(cell.threads), "iodepth": str(cell.depth)}
        options |= {"ioengine": self._engine(), "direct": str(int(self.spec.target.direct))}
        options |= self._durability() | self._arrival() | self._data() | self._limits()
        return options

    def load(self) -> Options:
        """Return the options of the load, without its sizes, its range and its limits."""
        options = {"ioengine": self._engine()} | self._durability()
        if self.missing():
            return options
        named = {"random_distribution"}
        if self.spec.accesses or "read_share" in self.cell.factors:
            named.add("rwmixread")
        options |= {name: text for name, text in self._access().items() if name in named}
        return options | self._arrival()

    def _original_options(self, options: Mapping[str, str]) -> Options:
        """Return the options of a job that fio ran, without those of its file."""
        own = {"name", "description", "stonewall", "new_group", "group_reporting", "thread"}
        requested = {k: v for k, v in options.items() if k not in own}
        text = f"seatrial kind={self.cell.kind} target={self.cell.target}"
        return {"description": text} | {k: v for k, v in requested.items() if "_log" not in k}

    def _range(self) -> Options:
        start_bytes = self.spec.range.start_bytes
        length_bytes = self.spec.range.length_bytes
        if length_bytes is None:
            length_bytes = self.job_target.size_bytes
        is_log = self.spec.target.file == LOG_FILE
        options = {"filename": self.job_target.file(LOG_NAME if is_log else FILE_NAME)}
        if start_bytes:
            options["offset"] = str(start_bytes)
        if self._is_sequential() and self.cell.threads > 1:
            block_bytes = max(1, self.cell.block_size_bytes)
            each_bytes = length_bytes // self.cell.threads // block_bytes * block_bytes
            if each_bytes:
                self.comments.append(
                    "fio's threads have a part of the range each; Seatrial's share one cursor."
                )
                return options | {"size": str(each_bytes), "offset_increment": str(each_bytes)}
        return options | {"size": str(length_bytes)}

    def _is_sequential(self) -> bool:
        return all(access.address.kind == "sequential" for access in self.accesses)

    def _access(self) -> Options:
        """Return direction, pattern and sizes."""
        weights = {direction: self._weight(operation=direction) for direction in ("read", "write")}
        direction = _DIRECTIONS[weights["read"] > 0, weights["write"] > 0]
        sequential = self._weight(address="sequential") / self._weight()
        address = self.accesses[0].address
        options: Options = {}
        if address.kind == "strided":
            skip_bytes = address.stride_bytes - self.cell.block_size_bytes
            options["rw"] = f"{direction}:{skip_bytes}"
        else:
            options["rw"] = direction if sequential == 1 else f"rand{direction}"
        if 0 < sequential < 1:
            options["percentage_random"] = self._percent("random share", 1 - sequential)
        if direction == "rw":
            share = weights["read"] / (weights["read"] + weights["write"])
            options["rwmixread"] = self._percent("read share", share)
        options |= self._distribution(address)
        if self.cell.block_size_bytes:
            return options | {"bs": str(self.cell.block_size_bytes)}
        directions = ["read", "write"] if direction == "rw" else [direction]
        return options | self._sizes(directions)

    def _weight(self, *, operation: str = "", address: str = "") -> float:
        """Return the weight of the accesses of one direction or pattern; a commit writes."""
        return sum(
            access.weight
            for access in self.accesses
            if (not operation or _direction(access) == operation)
            and (not address or access.address.kind == address)
        )

    def _percent(self, what: str, share: float) -> str:
        percent = round(100 * share)
        if not math.isclose(percent, 100 * share, abs_tol=1e-6):
            self.comments.append(f"fio takes whole percentages: {what} {share:.4g} is {percent} %.")
        return str(percent)

    def _distribution(self, address: SpecAddress) -> Options:
        if address.kind == "zipf" and address.theta:
            if address.theta == 1:
                self.comments.append("fio has no zipf with theta 1; 0.999 is used.")
            theta = 0.999 if address.theta == 1 else address.theta
            return {"random_distribution": f"zipf:{theta:g}"}
        if address.kind == "hot_cold":
            hot = int(self._percent("hot share", address.hot_share or 0.0))
            reached = int(self._percent("hot access share", address.hot_access_share or 0.0))
            zones = f"{reached}/{hot}:{100 - reached}/{100 - hot}"
            return {"random_distribution": f"zoned:{zones}"}
        if address.kind not in ("random", "sequential", "strided", "zipf"):
            return {"random_distribution": address.kind}
        return {}

    def _sizes(self, directions: Sequence[str]) -> Options:
        """Return the distribution of block sizes, separately for reads and writes."""
        if not self._weight():
            return {}
        return {"bssplit": ",".join(self._split(direction) for direction in directions)}

    def _split(self, direction: str) -> str:
        shares: dict[int, float] = {}
        for access in self.accesses:
            if _direction(access) == direction:
                total = sum(size.weight for size in access.sizes)
                for size in access.sizes:
                    share = access.weight * size.weight / total
                    shares[size.bytes] = shares.get(size.bytes, 0.0) + share
        total = sum(shares.values())
        return ":".join(
            f"{size}/{self._percent(f'share of {size} bytes', share / total)}"
            for size, share in sorted(shares.items())
        )

    def _engine(self) -> str:
        requested = self.spec.engine
        if self.cell.depth == 1 and requested != "io_uring":
            return "psync"
        if requested == "psync":
            self.comments.append("fio's psync keeps one request in flight; io_uring is used.")
        return "io_uring"

    def _durability(self) -> Options:
        if self.cell.operation == "commit" and not self.spec.target.dsync:
            self.comments.append("fio times write and fdatasync separately, not as one commit.")
        if self.spec.target.dsync:
            return {"sync": "dsync"}
        if self.cell.operation == "commit":
            return {"fdatasync": "1"}
        return {self.spec.sync_kind: str(self.spec.sync_every)} if self.spec.sync_every else {}

    def _arrival(self) -> Options:
        arrival = self.spec.arrival
        if not arrival.is_scheduled or arrival.rate_per_s is None:
            return {}
        weights = [self._weight(operation=direction) for direction in ("read", "write")]
        of_thread = arrival.rate_per_s / self.cell.threads
        # fio limits reads and writes separately: a single figure would apply to each of them.
        shares = [weight / sum(weights) for weight in weights] if all(weights) else [1.0]
        each_per_s = [max(1, round(of_thread * share)) for share in shares]
        written = ",".join(map(str, each_per_s))
        if not math.isclose(sum(each_per_s) * self.cell.threads, arrival.rate_per_s):
            self.comments.append(f"fio needs whole requests per second and thread: {written} each.")
        self.comments.append("fio's latency counts from the actual start of a request.")
        options = {"rate_iops": written}
        return options | ({"rate_process": "poisson"} if arrival.kind == "poisson" else {})

    def _data(self) -> Options:
        data = self.spec.data
        if data.kind == "verifiable" or self.spec.verify:
            self.comments.append("fio does not check what Seatrial's 'verify' checks.")
        if data.kind == "compressible":
            percent = self._percent("compressible share", 0.5 if data.share is None else data.share)
            return {"buffer_compress_percentage": percent, "refill_buffers": "1"}
        return {}

    def _limits(self) -> Options:
        """Return the limits of the job: its time, and the bytes that it writes."""
        limit = self.spec.limit
        if limit == SpecLimit():
            self.comments.append(
                f"The duration of the measurement is unknown; {RUNTIME_S:g} s here."
            )
        if self.spec.iopoll:
            self.comments.append(
                "It was measured with polling: add hipri=1 if the device supports it."
            )
        runtime_ms = max(1, round(1000 * (limit.duration_s or RUNTIME_S)))
        options = {"runtime": f"{runtime_ms}ms"}
        if not limit.bytes:
            return options | {"time_based": "1"}
        return options | {"io_size": str(max(1, limit.bytes // self.cell.threads))}


def _direction(access: SpecAccess) -> str:
    """Return fio's direction of an access."""
    return "read" if access.operation == "read" else "write"


def pattern_of(cell: Cell) -> str:
    """Return the order of a cell's addresses, by its factors or else by its kind."""
    is_ordered = cell.kind in {"fill", "sequential", "commit"}
    return str(cell.factors.get("pattern", "sequential" if is_ordered else "random"))


def _accesses(cell: Cell) -> Iterator[SpecAccess]:
    """Yield the accesses of a cell; for an imported cell, those that its operation implies."""
    pattern = pattern_of(cell)
    theta = float(cell.factors.get("theta", 0.99)) if pattern == "zipf" else None
    address = SpecAddress(kind=pattern, theta=theta)
    share = float(cell.factors.get("read_share", 0.5))
    shares = {"read": 1.0, "write": 0.0} if cell.operation == "read" else {"write": 1.0}
    if cell.operation == "mixed":
        shares = {"read": share, "write": 1 - share}
    for operation, weight in shares.items():
        if weight > 0:
            sizes = [SpecSize(bytes=cell.block_size_bytes)]
            yield SpecAccess(weight=weight, operation=operation, sizes=sizes, address=address)
