"""Measuring, replaying and modelling: the parts that must be fast."""

from os import PathLike
from typing import Any, Final, SupportsFloat, SupportsIndex, final

from _typeshed import SupportsGetItem
from typing_extensions import Buffer

BLOCK_BYTES_MAX: Final[int]
CHANNELS_MAX: Final[int]
DEPTH_MAX: Final[int]
DURATION_S_MAX: Final[float]
ERRNO_MAX: Final[int]
FLASH_BLOCK_PAGES_MAX: Final[int]
FLASH_BLOCK_PAGES_MIN: Final[int]
FLASH_OVER_PROVISIONING_SHARE_MAX: Final[float]
FLASH_PAGE_BYTES_MAX: Final[int]
FLASH_PAGE_BYTES_MIN: Final[int]
FOREIGN_FORMATS: Final[list[str]]
MODEL_AMOUNT_MAX: Final[float]
OFFSET_BYTES_MAX: Final[int]
ONE_PASS_OVER_PROVISIONING_SHARE_MAX: Final[float]
RATE_PER_S_MAX: Final[float]
RATE_PER_S_MIN: Final[float]
SESSIONS_MAX: Final[int]
SLICE_MS_MAX: Final[int]
STALL_THRESHOLD_MS_MAX: Final[int]
STATEMENT_CLASSES: Final[list[str]]
THETA_MAX: Final[float]
THREADS_MAX: Final[int]
WATCHED_OPERATIONS: Final[list[str]]
__version__: Final[str]

@final
class CacheAccesses:
    """Accesses to blocks, in order."""
    def __len__(self, /) -> int:
        """How many accesses there are."""
    def __new__(
        cls,
        /,
        blocks: Buffer,
        *,
        writes: Buffer | None = None,
        scans: Buffer | None = None,
        streams_bytes: Buffer | None = None,
    ) -> CacheAccesses:
        """Take blocks by any numbers, in the order of access: a buffer of unsigned 64-bit numbers.

        ``writes`` and ``scans`` say of each access whether it is a write, which is no hit and no
        miss, and whether it is part of a scan: buffers of bytes, 0 or 1. ``streams_bytes`` says how
        long the sequential stream of each is (``stream_bytes``): unsigned 32-bit numbers.

        Raises ValueError when there are too many different blocks, or not as many of the others.
        """
    @property
    def different(self, /) -> int:
        """How many different blocks there are."""
    def hits(
        self,
        /,
        policy: str,
        capacities_blocks: SupportsGetItem[int, SupportsIndex],
        block_bytes: SupportsIndex,
    ) -> list[int]:
        """Return how many reads a cache of each capacity serves, in blocks.

        ``block_bytes`` matters to ``linux`` alone, whose lists depend on the size of memory.

        Raises ValueError of an unknown policy or a capacity of 0.
        """
    def lru_hit_ratios(
        self,
        /,
        sizes_blocks: SupportsGetItem[int, SupportsIndex],
        *,
        share: SupportsFloat | SupportsIndex = 1.0,
        all_reads: SupportsIndex | None = None,
    ) -> list[float]:
        """Return the hit ratios of LRU caches of the given number of blocks, all from one pass.

        Of a sample of the blocks, ``share`` is theirs and ``all_reads`` counts the reads of all
        blocks; ``sizes_blocks`` are those of the whole.
        """
    def outcomes(
        self,
        /,
        policy: str,
        capacity_blocks: SupportsIndex,
        block_bytes: SupportsIndex,
        *,
        changes: Buffer | None = None,
    ) -> bytes:
        """Return the outcome of each access in a cache of a capacity in blocks: one byte each.

        1 is a miss. 2 is added where a block left for it that was changed and has to be written;
        ``changes`` has for each access whether it dirties its block: a buffer of bytes, 0 or 1.

        Raises ValueError of an unknown policy, a capacity of 0, or not as many changes as accesses.
        """
    @property
    def reads(self, /) -> int:
        """How many of them are reads."""
    def simulate(self, /, setting: CacheSetting) -> list[CacheSlice]:
        """Simulate memory and a cache device under this load, on a virtual clock.

        Raises ValueError when there are not as many times as accesses, or the device is fed from
        memory and there is none, or its policy has no order of eviction.
        """

@final
class CacheDeviceKind:
    """A kind of cache device."""
    @property
    def header_bytes(self, /) -> int:
        """Memory that a block on it takes."""
    @property
    def is_fed(self, /) -> bool:
        """Whether it is fed from memory."""
    @property
    def name(self, /) -> str:
        """As a user types it."""
    @property
    def stream_bytes_max(self, /) -> int | None:
        """How long sequential streams are that it leaves to the disks; None for no limit."""
    @property
    def text(self, /) -> str:
        """Its description, a sentence."""

@final
class CacheSetting:
    """Caches, service stations and arrivals of a simulation."""
    def __new__(
        cls,
        /,
        *,
        policy: str,
        memory_blocks: SupportsIndex,
        block_bytes: SupportsIndex,
        path: tuple[SupportsIndex, SupportsGetItem[int, SupportsIndex], bool],
        device: tuple[SupportsIndex, SupportsGetItem[int, SupportsIndex], bool],
        disk: tuple[SupportsIndex, SupportsGetItem[int, SupportsIndex], bool],
        end_ns: SupportsIndex,
        slice_ns: SupportsIndex,
        seed: SupportsIndex,
        clients: SupportsIndex | None = None,
        at_ns: Buffer | None = None,
        admission: str | None = None,
        device_blocks: SupportsIndex = 0,
        device_write_bytes_per_s: SupportsFloat | SupportsIndex = 0.0,
        device_at_ns: SupportsIndex = 0,
        header_bytes: SupportsFloat | SupportsIndex = 0.0,
        storage_blocks: SupportsIndex = 0,
    ) -> CacheSetting:
        """Describe a simulation.

        A station is ``(servers, service times in ns of which each is as likely, whether each block
        has a server of its own)``. Requests come from ``clients`` that each wait for one before
        they send the next, over and over, or at ``at_ns``, once.

        A block that the device holds and memory does not takes ``header_bytes`` of memory. The
        storage has ``storage_blocks``, or as many as are accessed at least.

        Raises ValueError of an unknown policy or admission, or of a length of 0.
        """

@final
class CacheSlice:
    """The requests that ended in a slice of time."""
    @property
    def device_blocks(self, /) -> int:
        """Blocks on the cache device at its end."""
    @property
    def device_hits(self, /) -> int:
        """Reads that the cache device served."""
    @property
    def device_written_blocks(self, /) -> int:
        """Blocks written to the cache device until its end."""
    @property
    def disk_reads(self, /) -> int:
        """Reads that the disk served."""
    @property
    def header_blocks(self, /) -> int:
        """Blocks that memory has no room for at its end, for the headers of the device's blocks."""
    @property
    def latency(self, /) -> Histogram:
        """Response times of its reads."""
    @property
    def memory_hits(self, /) -> int:
        """Reads that memory served."""
    @property
    def writes(self, /) -> int:
        """Writes."""

@final
class CellLive:
    """The last second of a cell."""
    @property
    def bytes_per_s(self, /) -> float:
        """Bytes moved per second."""
    @property
    def elapsed_s(self, /) -> float:
        """Since the cell began."""
    @property
    def iops(self, /) -> float:
        """Completed requests per second."""
    @property
    def oldest_in_flight_ns(self, /) -> int:
        """Age of the oldest outstanding request."""
    @property
    def p99_ns(self, /) -> int:
        """99th percentile of the response times."""
    @property
    def stalls(self, /) -> int:
        """Stalls so far."""

@final
class Histogram:
    """Log-linear histogram of ns, buckets at most 0.8 % wide."""
    def __eq__(self, other: object, /) -> bool: ...
    def __len__(self, /) -> int: ...
    def __repr__(self, /) -> str: ...
    def buckets(self, /) -> tuple[list[int], list[int], list[int]]:
        """Return lower bounds (ns, inclusive), upper bounds (ns, exclusive) and counts > 0."""
    @property
    def count(self, /) -> int:
        """Entries."""
    @staticmethod
    def decode(blob: bytes) -> Histogram:
        """Read an encoded histogram; raises ValueError when the bytes are not one."""
    def encode(self, /) -> bytes:
        """Return the canonical bytes: equal contents give equal bytes."""
    @staticmethod
    def from_counts(values_ns: Any, counts: Any) -> Histogram:
        """Build a histogram of values in ns and how often each occurred.

        Raises ValueError when there are not as many counts as values, when one of either is
        negative or beyond 64 bits, or when the counts add up to more than 64 bits hold.
        """
    @property
    def max_ns(self, /) -> int:
        """Exact maximum; 0 when empty."""
    @property
    def mean_ns(self, /) -> float:
        """Exact mean; 0 when empty."""
    def merged(self, /, other: Histogram) -> Histogram:
        """Return the sum of both; exact, order does not matter."""
    @property
    def min_ns(self, /) -> int:
        """Exact minimum; 0 when empty."""
    @staticmethod
    def of(values_ns: SupportsGetItem[int, SupportsIndex]) -> Histogram:
        """Build a histogram of values in ns."""
    def percentile_ns(self, /, percent: SupportsFloat | SupportsIndex) -> int:
        """Return the value (ns) that ``percent`` of the entries do not exceed; 0 when empty."""

@final
class NullServer:
    """A server that speaks PostgreSQL's protocol and does nothing; it ends when it is dropped."""
    def __new__(
        cls,
        /,
        *,
        folder: str | PathLike[str] | None = None,
        port: SupportsIndex = 0,
        server_version: str = "15.0",
        connections_max: SupportsIndex = 1024,
    ) -> NullServer:
        """Start a server in a private folder (mode 0700), or without one on a loopback port.

        Raises NativeError when the version is invalid, others may enter the folder, or the system
        refuses.
        """
    @property
    def connections(self, /) -> int:
        """Clients so far."""
    @property
    def cpu_ns(self, /) -> int:
        """Processor time (ns) of the server's one thread; 0 until it is stopped."""
    @property
    def host(self, /) -> str:
        """The host for clients: the folder, or the loopback address."""
    @property
    def port(self, /) -> int:
        """The port, or the number in the socket's name."""
    @property
    def statements(self, /) -> int:
        """Statements answered so far."""
    def stop(self, /) -> None:
        """End the server; clients see the end of their connections."""

@final
class PageCache:
    """Linux's page cache of a capacity in pages of 4 KiB, with its readahead."""
    def __contains__(self, page: SupportsIndex, /) -> bool:
        """Return whether a page is in the cache."""
    def __new__(cls, /, capacity_pages: SupportsIndex, window_pages: SupportsIndex) -> PageCache:
        """Make an empty cache; ``window_pages`` are read ahead at most, 0 for none.

        Raises ValueError of a capacity of 0.
        """
    @property
    def fetched_pages(self, /) -> int:
        """Pages read from the disk, including readahead."""
    def read(self, /, first_pages: Buffer, files: Buffer, pages: SupportsIndex) -> bytes:
        """Make reads of several pages; return for each whether a page was absent: bytes, 0 or 1.

        ``first_pages`` is a buffer of unsigned 64-bit numbers; ``files`` says by which open file
        each is read: a buffer of unsigned 32-bit numbers.

        Raises ValueError when there are not as many files as reads, or too many pages.
        """

@final
class PlaybackLive:
    """How far a playback is."""
    @property
    def answered(self, /) -> int:
        """Statements that were answered, by an error too."""
    @property
    def captured_total(self, /) -> int:
        """Statements in the trace; 0 until they are counted."""
    @property
    def elapsed_s(self, /) -> float:
        """Since it began to send."""
    @property
    def failed(self, /) -> int:
        """Of these, by an error, or never."""
    @property
    def lag_ns(self, /) -> int:
        """How late the last statement was sent; 0 at maximum speed."""
    @property
    def open(self, /) -> int:
        """Sessions that are connected."""
    @property
    def skipped(self, /) -> int:
        """Statements that were skipped."""

@final
class PlaybackResult:
    """The result of a playback."""
    @property
    def counts(self, /) -> dict | None:
        """Of a part of a trace: encoded histograms ``lag`` and ``driver_lag``, and in ``queries``
        those of ``service``, ``response`` and ``captured`` times by fingerprint; None for a whole.
        """
    @property
    def end(self, /) -> str:
        """``complete``, ``interrupted`` or ``server_lost``."""
    @property
    def parts(self, /) -> dict:
        """A sample's parts, as ``Running.result`` returns them."""
    @property
    def record_json(self, /) -> str:
        """The part that only a replay has, as JSON of the schema ``replay``."""
    @property
    def words(self, /) -> str:
        """The server's words, where it was lost; else empty."""

@final
class RecordingReader:
    """A recording of block requests that is read."""
    def __new__(cls, /, path: str | PathLike[str]) -> RecordingReader:
        """Open a recording; one that was cut off is completed first.

        Raises NativeError when it cannot be opened or completed, is none, or lacks a file.
        """
    @property
    def about_json(self, /) -> str:
        """Its metadata, as JSON."""
    @property
    def files(self, /) -> int:
        """How many files it has."""
    def next_columns(self, /) -> dict | None:
        """Return the next requests (at most 65,536) as columns by name; None at the end.

        Each column is the bytes of an array in the machine's order.

        Raises NativeError when it is damaged.
        """
    @property
    def requests(self, /) -> int:
        """Number of requests, according to its files."""
    @property
    def total_bytes(self, /) -> int:
        """Size of its files."""

@final
class RecordingWriter:
    """A recording of block requests that is written."""
    def __new__(
        cls,
        /,
        path: str | PathLike[str],
        about_json: str,
        *,
        began_ns: SupportsIndex,
        rotate_bytes: SupportsIndex,
    ) -> RecordingWriter:
        """Begin a recording; ``about_json`` is its metadata (docs/recording.md).

        ``began_ns`` is its beginning by CLOCK_MONOTONIC. A file that has reached ``rotate_bytes``
        is followed by another one.

        Raises NativeError when it cannot be made, another process writes one of this name, or one
        was cut off that can be recovered.
        """
    def abandon(self, /) -> None:
        """Leave the recording as it was at its last checkpoint, without completing it."""
    def add(
        self,
        /,
        requests: SupportsGetItem[int, WatchedRequest],
        relations: SupportsGetItem[int, SupportsIndex],
    ) -> None:
        """Record requests, each with the number of its relation; -1 where it has none.

        Raises NativeError when the file cannot be written.
        """
    def checkpoint(self, /, length_ns: SupportsIndex, lost_json: str) -> None:
        """Make sure that everything until now can be read even if this process dies.

        Raises NativeError when the file cannot be written.
        """
    def finish(self, /, length_ns: SupportsIndex, lost_json: str) -> tuple[int, int, int]:
        """Complete the recording; return its requests, bytes and files.

        Raises NativeError when the file cannot be written.
        """
    def name_device(
        self,
        /,
        major: SupportsIndex,
        minor: SupportsIndex,
        name: str,
        size_bytes: SupportsIndex | None = None,
    ) -> None:
        """Name a device by its numbers."""
    def relation(self, /, name: str) -> int:
        """Return the number of a relation, by its name."""
    def take(self, /, watch: Watch) -> int:
        """Record the requests that completed since a watch was read last; return how many.

        Raises NativeError when the file cannot be written.
        """

@final
class Running:
    """A sample being measured in background threads."""
    def live(self, /) -> CellLive:
        """Return the last second."""
    def result(self, /) -> dict:
        """Return the sample's parts (docs/engine.md), once.

        Raises RuntimeError while running or when taken before, NativeError when it failed.
        """
    def stop(self, /) -> None:
        """End it early; completed measurements are kept."""
    def wait(self, /, timeout_s: SupportsFloat | SupportsIndex) -> bool:
        """Wait at most for the given time; True when the sample has ended."""

@final
class SqlCapture:
    """A capture that runs in background threads."""
    @property
    def encrypted(self, /) -> int:
        """Connections so far that are encrypted, and cannot be read."""
    @property
    def has_failed(self, /) -> bool:
        """Whether the trace cannot be written any more, while passing goes on."""
    @property
    def places(self, /) -> list[str]:
        """Where clients come in, in the order of the specification; of packets none."""
    def progress(self, /) -> tuple[int, int, int]:
        """Return statements so far, those that were left out, and connections that are open."""
    def result(self, /) -> str:
        """Return the result as JSON, once.

        Raises NativeError when it failed; RuntimeError while it is running, or when taken before.
        """
    def stop(self, /) -> None:
        """Ask it to end: a proxy's connections are closed, and the trace is completed."""
    def wait(self, /, timeout_s: SupportsFloat | SupportsIndex) -> bool:
        """Wait at most for the given time; True when it has ended."""

@final
class SqlPart:
    """A part of a log that is being read; an iterator of its parsed chunks."""
    def __iter__(self, /) -> SqlPart: ...
    def __new__(cls, /, part_json: str, piece_bytes: SupportsIndex) -> SqlPart:
        """Open the file of a part (a document of sql_log_parts), on any host that has it.

        Raises NativeError when it cannot be read there, or is another file.
        """
    def __next__(self, /) -> bytes: ...

@final
class SqlPlayback:
    """A trace that is being played in a background thread."""
    def is_ready(self, /) -> bool:
        """Whether one that awaits its start has counted the trace."""
    def live(self, /) -> PlaybackLive:
        """Return how far it is."""
    def result(self, /) -> PlaybackResult:
        """Return the result, once.

        Raises NativeError when the trace or the server's address is invalid, the system refuses, or
        for a defect; RuntimeError while it plays, or when taken before.
        """
    def start_at(self, /, start_at_ns: SupportsIndex) -> None:
        """Begin at a moment (ns) of the monotonic clock, where it awaits its start."""
    def stop(self, /) -> None:
        """Ask it to end; nothing more is sent, and completed measurements are kept."""
    def wait(self, /, timeout_s: SupportsFloat | SupportsIndex) -> bool:
        """Wait at most for the given time; True when it has ended."""

@final
class SqlReading:
    """Logs that are being read in background threads."""
    def give(self, /, piece: bytes) -> bool:
        """Give it the next piece of a part, in their order; False once it takes no more.

        Raises NativeError when it is not a piece, or none is expected.
        """
    def give_end(self, /) -> bool:
        """End the pieces: all were given; False once it takes no more.

        Raises NativeError when none is expected.
        """
    def result(self, /) -> str:
        """Return the result as JSON, once.

        Raises NativeError when it failed; RuntimeError while reading, or when taken before.
        """
    @property
    def statements(self, /) -> int:
        """Statements so far."""
    def stop(self, /) -> None:
        """Ask it to end; nothing is then written."""
    def wait(self, /, timeout_s: SupportsFloat | SupportsIndex) -> bool:
        """Wait at most for the given time; True when all was read, or it failed."""

@final
class Watch:
    """Block requests of the machine, from the start until this is stopped."""
    def __new__(
        cls,
        /,
        devices: SupportsGetItem[int, tuple[SupportsIndex, SupportsIndex]],
        *,
        records: bool = False,
        by_fields: bool = False,
    ) -> Watch:
        """Start watching devices given as (major, minor); all where the list is empty.

        ``by_fields`` does without the kernel's types, as on a kernel that publishes none.

        Raises NativeSystemError when the kernel has no such tracepoints or no BPF, or when the
        process lacks the rights.
        """
    @property
    def knows_queue(self, /) -> bool:
        """Whether the time in the queue is known (Linux 6.5 and later)."""
    def lost(self, /) -> WatchLost:
        """Return the losses since the start."""
    def stop(self, /) -> None:
        """Stop watching."""
    def take_groups(self, /) -> list[WatchedGroup]:
        """Return the counters since the last call, one group each; empty once stopped."""
    def take_requests(self, /) -> list[WatchedRequest]:
        """Return the requests that completed since the last call, in that order."""

@final
class WatchLost:
    """Losses since the start."""
    @property
    def missed(self, /) -> int:
        """Events during which another program of the kind ran on the same processor."""
    @property
    def uncounted(self, /) -> int:
        """Requests for which the kernel's tables had no room."""
    @property
    def unmatched(self, /) -> int:
        """Completions of requests whose issue was not seen."""
    @property
    def unrecorded(self, /) -> int:
        """Requests that are counted, but were not recorded one by one."""

@final
class WatchedGroup:
    """Requests alike in device, operation, size class and process."""
    @property
    def command(self, /) -> str:
        """Its name."""
    @property
    def device(self, /) -> Histogram:
        """Times at the device."""
    @property
    def device_ns(self, /) -> int:
        """Sum of their times at the device."""
    @property
    def failed(self, /) -> int:
        """Requests that failed, which are among them."""
    @property
    def is_sync(self, /) -> bool:
        """Whether a process waits for them."""
    @property
    def length_bytes_min(self, /) -> int:
        """Their length in bytes is at least this, and less than twice as much; 0 without data."""
    @property
    def major(self, /) -> int:
        """Major number of the device."""
    @property
    def minor(self, /) -> int:
        """Minor number of the device."""
    @property
    def operation(self, /) -> str:
        """``read``, ``write``, ``flush``, ``discard`` or ``other``."""
    @property
    def pid(self, /) -> int:
        """Process that sent them."""
    @property
    def queue(self, /) -> Histogram:
        """Times in the queue."""
    @property
    def queue_ns(self, /) -> int:
        """Sum of their times in the queue."""
    @property
    def queued(self, /) -> int:
        """Requests whose time in the queue is known."""
    @property
    def requests(self, /) -> int:
        """Completed requests."""
    @property
    def transferred_bytes(self, /) -> int:
        """Their bytes."""

@final
class WatchedRequest:
    """A completed request."""
    @property
    def command(self, /) -> str:
        """Its name."""
    @property
    def completed_ns(self, /) -> int:
        """When it completed, by CLOCK_MONOTONIC."""
    @property
    def device_ns(self, /) -> int:
        """How long it was at the device."""
    @property
    def failed(self, /) -> bool:
        """Whether it failed."""
    @property
    def is_sync(self, /) -> bool:
        """Whether a process waited for it."""
    @property
    def length_bytes(self, /) -> int:
        """Its length."""
    @property
    def major(self, /) -> int:
        """Major number of the device."""
    @property
    def minor(self, /) -> int:
        """Minor number of the device."""
    @property
    def offset_bytes(self, /) -> int:
        """Its first byte on the device."""
    @property
    def operation(self, /) -> str:
        """``read``, ``write``, ``flush``, ``discard`` or ``other``."""
    @property
    def pid(self, /) -> int:
        """Process that sent it."""
    @property
    def queue_ns(self, /) -> int | None:
        """How long it was in the queue; None if unknown."""

def cache_devices() -> list[CacheDeviceKind]:
    """Return the kinds of cache devices."""

def cache_policies() -> list[tuple[str, str, bool]]:
    """Return of each policy its name, a description, and whether a feed can copy from it."""

def clock_source() -> str:
    """Return ``tsc`` or ``monotonic``."""

def fingerprint_sql(sql: str) -> tuple[str, str, str, int]:
    """Return fingerprint, text without values, class and number of statements of a text of SQL."""

def forget_device(state_key: str) -> None:
    """Drop the state of a simulated device that is stored under its ``target.state_key``."""

def import_recording(
    trace: str | PathLike[str], trace_format: str | None, recording: str | PathLike[str]
) -> tuple[str, int, int, int]:
    """Read another program's trace into a recording.

    Return the format, and how many requests, bytes and files of the trace it has.

    ``trace_format`` is one of ``FOREIGN_FORMATS``, or None for the one that it fits.

    Raises NativeError when the trace cannot be read or the recording cannot be written.
    """

def io_uring_status() -> str:
    """Return an empty string when io_uring works, else the reason by name."""

def one_pass_writes(
    blocks: SupportsIndex, over_provisioning_share: SupportsFloat | SupportsIndex
) -> int:
    """Return the writes of a one-pass fill of ``blocks`` blocks: about 1 + the share per block."""

def read_pgbench_logs(spec_json: str) -> dict:
    """Read pgbench's per-transaction logs (docs/engine.md, "pgbench's logs").

    Raises NativeError with file, line number and text when a line makes no sense, or when a file
    cannot be read.
    """

def record_schemas() -> dict[str, str]:
    """Return the JSON schema of each record that crosses, by the record's name."""

def recover_trace(trace: str | PathLike[str]) -> int:
    """Make a trace of one whose capture was cut off; return how many statements it has.

    Raises NativeError where there is none.
    """

def sampled_accesses(
    blocks: Buffer, share: SupportsFloat | SupportsIndex, salt: SupportsIndex
) -> bytes:
    """Return which accesses are to blocks of a sample: bytes, 0 or 1, one an access."""

def show_trace(trace: str | PathLike[str], top: SupportsIndex) -> str:
    """Return the summary of a trace as JSON, with the ``top`` queries by their total time.

    Raises NativeError when it is not a trace.
    """

def sql_log_parts(spec_json: str, part_bytes: SupportsIndex) -> list[str]:
    """Return the parts of logs, each of at most the given size, as JSON documents for SqlPart.

    Raises NativeError when the logs cannot be read, or not in parts.
    """

def start(spec_json: str) -> Running:
    """Start one cell from its specification (docs/engine.md).

    Raises NativeError when it is invalid, or the target cannot be opened.
    """

def start_files(spec_json: str) -> Running:
    """Start one workload of files from its specification (docs/engine.md).

    Raises NativeError when it is invalid, or no thread can be started.
    """

def start_sql_capture(spec_json: str) -> SqlCapture:
    """Start to capture traffic of clients and a server into a trace (docs/sql.md).

    Raises NativeError when it cannot listen there, packets cannot be seen, or the trace cannot be
    written.
    """

def start_sql_playback(spec_json: str) -> SqlPlayback:
    """Start to play a trace (docs/engine.md, "Playback").

    Raises NativeError when the specification is invalid, or the system refuses a thread.
    """

def start_sql_read(spec_json: str) -> SqlReading:
    """Start to read logs into a trace (docs/sql.md).

    Raises NativeError when the specification is invalid.
    """

def stream_bytes(
    begins_bytes: Buffer, lengths_bytes: Buffer, arrived_ns: Buffer, processes: Buffer
) -> bytes:
    """Return how long the sequential stream of each request is with it, or how long those of its
    process are in the mean if that is more: unsigned 32-bit numbers of bytes, one a request.

    Requests begin at bytes that no two devices have in common, and are in the order of their times
    (ns). A process below 0 is unknown.

    Raises ValueError when there are not as many of each.
    """

def trace_commits(trace: str | PathLike[str]) -> str:
    """Return the commits that write and the statements at work, by slices of time, as JSON.

    Raises NativeError when it is not a trace.
    """

def trace_examples(trace: str | PathLike[str], fingerprints: SupportsGetItem[int, str]) -> dict:
    """Return the first statement of each of some fingerprints that can be sent again, as
    ``trace_statements`` does, by fingerprint.

    Raises NativeError when it is not a trace.
    """

def trace_sequences(
    trace: str | PathLike[str], catalog_json: str, databases: SupportsGetItem[int, str]
) -> str:
    """Return present and captured position of each sequence whose ids a trace uses, as JSON.

    ``sequence`` is its index in the catalogue; ``next_value_target`` is the catalogue's, and
    ``next_value_log`` that of the trace's first draw, None if unknown. Of the trace
    only sessions of these databases count, of all where there are none.

    Raises NativeError when the catalogue is invalid, or it is not a trace.
    """

def trace_statements(
    trace: str | PathLike[str], first: SupportsIndex, count: SupportsIndex
) -> list:
    """Return statements of a trace in the order of its log, as dictionaries.

    Raises NativeError when it is not a trace.
    """

def trace_time_series(trace: str | PathLike[str]) -> str:
    """Return the time series of a trace as JSON: calls and time by fingerprint and slice.

    Raises NativeError when it is not a trace.
    """

class NativeError(Exception):
    """What failed: ``seen``, ``cause``, ``next_step``."""

    seen: str

    cause: str

    next_step: str

class NativeDefectError(NativeError):
    """A defect of Seatrial."""

class NativeSpaceError(NativeError):
    """The disk is full."""

class NativeSystemError(NativeError):
    """The system refused a required resource."""

class NativeTargetError(NativeError):
    """The target cannot be used."""

class NativeUsageError(NativeError):
    """The request cannot be carried out."""
