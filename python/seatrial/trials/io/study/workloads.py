"""The workloads of block I/O in a study file: one struct for each kind, with keys and defaults.

An attribute has its unit in its name; if the key of the file is shorter, the docstring gives it.
docs/study-file.md explains every key with an example.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal, Self

import msgspec
from msgspec import Meta, field

from seatrial.study.sampled import SampledWorkload
from seatrial.study.values import (
    ONE,
    Arrivals,
    BlockSizes,
    Counts,
    CountsOrNone,
    DataKinds,
    Depths,
    Engines,
    Flags,
    ManyThreads,
    Methods,
    Operations,
    OverProvisioning,
    Patterns,
    PositiveShare,
    Probes,
    Rates,
    ReadsOrWrites,
    Seconds,
    Shares,
    Size,
    Thetas,
)
from seatrial.units import KIB, MIB

WHOLE_SWEEP: Final = tuple(512 << step for step in range(14))  # 512 B to 4 MiB, as bm-flash does
ARTICLE_THREADS: Final = (1, 10, 40)  # the three columns of bm-flash


class WorkloadBase(SampledWorkload, frozen=True, kw_only=True):
    """Keys of all workloads of the load engine.

    Attributes:
        limit_bytes: A writing sample ends after this many bytes; by default the length of the
            part of the file that it uses (a commit: the whole trial file).
        direct: Bypass the page cache (O_DIRECT).
        engine: ``auto``, ``io_uring`` or ``psync``.
        data: Data to write: ``random`` (does not compress), ``compressible`` or
            ``verifiable``.
        compressible_share: Share of each block that compresses away, with ``compressible``.
        verify: Check every block that is read against what was written.
        skip_unaligned: Skip and report cells whose size the target does not support with direct
            I/O, instead of rejecting the study.
        iopoll: Poll for completions where the device can (io_uring only).
    """

    limit_bytes: Size | None = None
    direct: Flags = True
    engine: Engines = "auto"
    data: DataKinds = "random"
    compressible_share: Shares = 0.5
    verify: bool = False
    skip_unaligned: bool = False
    iopoll: bool = False

    def with_options(self, seconds: float | None, *, buffered: bool, full: bool) -> Self:
        """Return the workload with changes from the command line (``SampledWorkload``)."""
        changed = super().with_options(seconds, buffered=buffered, full=full)
        return msgspec.structs.replace(changed, direct=False) if buffered else changed


class Concurrent(WorkloadBase, frozen=True, kw_only=True):
    """Keys of workloads with several requests in flight.

    Attributes:
        threads: Concurrent workers.
        depths: Requests that each worker keeps in flight.
    """

    threads: ManyThreads = 1
    depths: Depths = 1


class Scheduled(Concurrent, frozen=True, kw_only=True):
    """Keys of workloads with an arrival process or syncs.

    Attributes:
        arrival: ``closed`` (a request follows the one before), ``fixed``, ``poisson``,
            ``bursts`` or ``batches``.
        rate_per_s: Requests per second over all threads, for every arrival but ``closed``
            (``rate``).
        burst: Requests that arrive at once, with ``bursts``; on average, with ``batches``.
        sync_every: Sync after this many writes of a thread; 0 for never.
        sync_kind: ``fdatasync`` or ``fsync``.
    """

    arrival: Arrivals = "closed"
    rate_per_s: Rates | None = field(default=None, name="rate")
    burst: Counts | None = None
    sync_every: CountsOrNone = 0
    sync_kind: Literal["fdatasync", "fsync"] = "fdatasync"


class Patterned(Scheduled, frozen=True, kw_only=True):
    """Keys of workloads with any operations, block sizes and address pattern.

    Attributes:
        operations: ``read``, ``write`` or ``mixed``.
        read_share: Share of reads in ``mixed``.
        block_sizes: Sizes of one request.
        pattern: ``random``, ``sequential``, ``strided``, ``zipf`` or ``hot_cold``.
        stride_bytes: Distance between two requests, with ``strided`` (``stride``).
        theta: Skew, with ``zipf``: 0 is even, 0.99 is the usual web load, 3 the most.
        hot_share: Share of the range that is hot, with ``hot_cold``.
        hot_access_share: Share of the requests that go there.
        range_start_bytes: Start of the range in the file (``range_start``).
        range_length_bytes: Its length (``range_length``); by default to the end of the file.
    """

    operations: Operations = field(default_factory=lambda: ["read", "write"])
    read_share: Shares = 0.67
    block_sizes: BlockSizes = BlockSizes((8 * KIB,))
    pattern: Patterns = "random"
    stride_bytes: Size | None = field(default=None, name="stride")
    theta: Thetas = 0.99
    hot_share: Shares = 0.1
    hot_access_share: Shares = 0.9
    range_start_bytes: Size | None = field(default=None, name="range_start")
    range_length_bytes: Size | None = field(default=None, name="range_length")


class Fill(Concurrent, frozen=True, kw_only=True, tag="fill"):
    """Write the whole trial file, first in every round, and measure the rate.

    Attributes:
        duration_s: Time limit; reads of an unfilled file would not access the medium.
        block_sizes: Sizes of one request.
        pattern: ``sequential``, from its start; or ``one_pass``, once at random with a share of
            repetitions, so that flash ends as after endless random writes.
        over_provisioning_share: Flash beyond the file's size, as a share of it, assumed by
            ``one_pass``.
        once: Only in the first round, so that later ones find the state left by other cells.
    """

    duration_s: Seconds = field(default=3600.0, name="seconds")
    block_sizes: BlockSizes = BlockSizes((MIB,))
    pattern: Literal["sequential", "one_pass"] = "sequential"
    over_provisioning_share: OverProvisioning = 0.07
    once: bool = False

    ENDS_BY_ITSELF: ClassVar[bool] = True

    @property
    def allows_faults(self) -> bool:
        """Never: it lasts until the file is full."""
        return False

    @property
    def is_once(self) -> bool:
        """Whether only the first round fills."""
        return self.once


class Matrix(Patterned, frozen=True, kw_only=True, tag="matrix"):
    """Block sizes against threads, read and write: the table of bm-flash.

    Attributes:
        block_sizes: Sizes of one request.
        threads: Concurrent workers.
        adaptive: Measure some cells only, the most informative first, until the others can be
            predicted.
        predicted_within: Required half width of a prediction's 95 % interval over its figure,
            with ``adaptive``.
    """

    block_sizes: BlockSizes = BlockSizes(WHOLE_SWEEP)
    threads: ManyThreads = field(default_factory=lambda: list(ARTICLE_THREADS))
    adaptive: bool = False
    predicted_within: PositiveShare = 0.1

    @property
    def allows_faults(self) -> bool:
        """Whether every cell is measured."""
        return not self.adaptive

    def with_options(self, seconds: float | None, *, buffered: bool, full: bool) -> Self:
        """Return the matrix with changes from the command line (``SampledWorkload``)."""
        changed = super().with_options(seconds, buffered=buffered, full=full)
        if not full:
            return changed
        whole = {"block_sizes": BlockSizes(WHOLE_SWEEP), "threads": list(ARTICLE_THREADS)}
        return msgspec.structs.replace(changed, **whole)


class Sequential(Scheduled, frozen=True, kw_only=True, tag="sequential"):
    """From start to end by block size, as dd does, in parts of different length.

    Attributes:
        operations: ``read``, ``write``.
        block_sizes: Sizes of one request.
        files: Name and share of the trial file of each part: a part that fits a cache is
            faster than one that does not.
    """

    operations: ReadsOrWrites = field(default_factory=lambda: ["read", "write"])
    block_sizes: BlockSizes = BlockSizes(WHOLE_SWEEP)
    files: Annotated[dict[str, PositiveShare], ONE] = field(
        default_factory=lambda: {"big": 1.0, "small": 0.0625}
    )


class Copy(Concurrent, frozen=True, kw_only=True, tag="copy"):
    """Copy the trial file, or a share of it, to another file next to it, as cp does.

    Attributes:
        block_sizes: Sizes of one request.
        share: Share of the trial file that is copied.
    """

    block_sizes: BlockSizes = BlockSizes((128 * KIB,))
    share: PositiveShare = 1.0

    @property
    def copied_share(self) -> float:
        """The share of the trial file that is copied."""
        return self.share


class Map(Concurrent, frozen=True, kw_only=True, tag="map"):
    """Rate and access time over the address range, as disk utilities draw it.

    Attributes:
        operations: ``read``, ``write``.
        zones: Equal parts of the trial file.
        probes: ``rate`` (sequential, large blocks) and ``access`` (random, small blocks).
        rate_block_bytes: Size of one request of the rate probe (``rate_block``).
        access_block_bytes: Size of one request of the access probe (``access_block``).
    """

    operations: ReadsOrWrites = "read"
    zones: Annotated[int, Meta(ge=1, le=4096)] = 16
    probes: Probes = field(default_factory=lambda: ["rate", "access"])
    rate_block_bytes: Size = field(default=Size(MIB), name="rate_block")
    access_block_bytes: Size = field(default=Size(4 * KIB), name="access_block")


class Commit(WorkloadBase, frozen=True, kw_only=True, tag="commit"):
    """Append a record to a log and make it durable, as a database does at every commit.

    The log is written in place and wraps, as PostgreSQL's recycled segments are.

    Attributes:
        direct: Bypass the page cache; databases do not by default.
        methods: ``fdatasync`` after the write, or the file opened with ``o_dsync``.
        committers: Threads that commit at once.
        size_bytes: Bytes of one commit (``size``).
        log_bytes: Length of the log (``log_size``): by default four segments of 16 MiB.
    """

    direct: Flags = False
    methods: Methods = field(default_factory=lambda: ["fdatasync", "o_dsync"])
    committers: ManyThreads = field(default_factory=lambda: [1, 4, 16])
    size_bytes: BlockSizes = field(default=BlockSizes((8 * KIB,)), name="size")
    log_bytes: Size = field(default=Size(64 * MIB), name="log_size")


class Four(Concurrent, frozen=True, kw_only=True, tag="four"):
    """The four 4 KiB numbers that people compare: sequential and random, write and read.

    The tests of XBench's disk section with 4 KiB blocks, as published in
    reference/xbench-2008.csv.
    """


class Mix(Scheduled, frozen=True, kw_only=True, tag="mix"):
    """Access specifications: mixes of sizes, reads and randomness.

    Attributes:
        accesses: Names of specifications: ``database``, ``file-server``, ``web-server``,
            ``workstation``, or of the study's own ``[[access]]`` tables.
    """

    accesses: str | Annotated[list[str], ONE] = "database"


class Io(Patterned, frozen=True, kw_only=True, tag="io"):
    """One pattern, like one job of fio."""

    operations: Operations = "read"


IoWorkload = Fill | Matrix | Sequential | Copy | Map | Commit | Four | Mix | Io
