"""Types of the native module. Private: its public faces are the rooms of seatrial."""

from os import PathLike
from typing import Any, final

@final
class Histogram:
    """Log-linear histogram of ns, buckets at most 0.8 % wide."""

    @staticmethod
    def decode(blob: bytes) -> Histogram:
        """Read an encoded histogram; raises ValueError when the bytes are not one."""
    @staticmethod
    def of(values_ns: list[int]) -> Histogram:
        """Build a histogram of values in ns."""
    @staticmethod
    def from_counts(values_ns: list[int], counts: list[int]) -> Histogram:
        """Build a histogram of values in ns and how often each occurred.

        Extremes and mean are as exact as the values are. Raises ValueError when there are not as
        many counts as values, when one of either is negative or beyond 64 bits, or when the
        counts add up to more than 64 bits hold.
        """
    def encode(self) -> bytes:
        """Return the canonical bytes: equal contents give equal bytes."""
    def merged(self, other: Histogram) -> Histogram:
        """Return the sum of both; exact, order does not matter."""
    def percentile_ns(self, percent: float) -> int:
        """Return the value (ns) that ``percent`` of the entries do not exceed; 0 when empty."""
    def buckets(self) -> tuple[list[int], list[int], list[int]]:
        """Return lower bounds (ns, inclusive), upper bounds (ns, exclusive) and counts > 0."""
    @property
    def count(self) -> int:
        """Entries."""
    @property
    def mean_ns(self) -> float:
        """Exact mean; 0 when empty."""
    @property
    def min_ns(self) -> int:
        """Exact minimum; 0 when empty."""
    @property
    def max_ns(self) -> int:
        """Exact maximum; 0 when empty."""

@final
class Running:
    """A cell being measured in background threads."""

    def wait(self, timeout_s: float) -> bool:
        """Wait at most so long; True when the cell has ended."""
    def live(self) -> dict[str, Any]:
        """Return elapsed_s, stalls and oldest_in_flight_ns; iops, bytes_per_s, p99_ns of 1 s."""
    def stop(self) -> None:
        """Ask the workers to end; what was measured is kept."""
    def result(self) -> dict[str, Any]:
        """Return the sample's parts (docs/engine.md), once; raises RuntimeError while running."""

def start(spec_json: str) -> Running:
    """Start one cell from its specification (docs/engine.md).

    Raises ValueError with a sentence when it is not one, OSError when the target cannot be opened.
    """

def read_pgbench_logs(spec_json: str) -> dict[str, Any]:
    """Read pgbench's per-transaction logs (docs/engine.md, "pgbench's logs").

    Returns a sample's parts as ``Running.result`` does, and exact sums beside them: ``exact`` and,
    by process, ``processes``; ``truncated_lines`` and ``disordered_lines``.

    Raises ValueError with file, line number and text when a line makes no sense, or a sentence
    when the specification does not; OSError when a file cannot be read.
    """

@final
class NullServer:
    """A server that speaks PostgreSQL's protocol and does nothing; it ends when it is dropped."""

    def __new__(
        cls,
        *,
        folder: str | PathLike[str] | None = None,
        port: int = 0,
        server_version: str = "15.0",
        connections_max: int = 1024,
    ) -> NullServer:
        """Start a server in a private folder (mode 0700), or without one on a loopback port.

        Raises ValueError when the version is none, PermissionError when others may enter the
        folder, OSError when the system refuses.
        """
    @property
    def host(self) -> str:
        """What a client is given as host: the folder, or the loopback address."""
    @property
    def port(self) -> int:
        """The port, or the number in the socket's name."""
    @property
    def connections(self) -> int:
        """Clients that came so far."""
    @property
    def statements(self) -> int:
        """Statements answered so far."""
    @property
    def cpu_ns(self) -> int:
        """Processor time (ns) of the server's one thread; 0 until it is stopped."""
    def stop(self) -> None:
        """End the server; clients see the end of their connections."""

@final
class SqlReading:
    """Logs that are being read in background threads."""

    def wait(self, timeout_s: float) -> bool:
        """Wait at most so long; True when all was read, or it failed."""
    @property
    def statements(self) -> int:
        """Statements so far."""
    def stop(self) -> None:
        """Ask it to end; nothing is then written."""
    def result(self) -> str:
        """Return what came of it as JSON, once.

        Raises ValueError, or OSError for a full disk, with what was seen, cause and next step;
        RuntimeError while reading, when taken before, or for a defect.
        """

def start_sql_read(spec_json: str) -> SqlReading:
    """Start to read logs into a trace (docs/sql.md); raises RuntimeError for no specification."""

@final
class SqlCapture:
    """A capture at work in background threads."""

    @property
    def places(self) -> list[str]:
        """Where clients come in, in the order of the specification; of packets none."""
    def wait(self, timeout_s: float) -> bool:
        """Wait at most so long; True when it has ended."""
    def progress(self) -> tuple[int, int, int]:
        """Return statements so far, those that were left out, and connections that are open."""
    @property
    def encrypted(self) -> int:
        """Connections so far that are encrypted, and cannot be read."""
    @property
    def has_failed(self) -> bool:
        """Whether the trace cannot be written any more, while passing goes on."""
    def stop(self) -> None:
        """Ask it to end: a proxy's connections are closed, and the trace is completed."""
    def result(self) -> str:
        """Return what came of it as JSON, once.

        Raises ValueError, or OSError for a full disk, with what was seen, cause and next step;
        RuntimeError while it is at work, when taken before, or for a defect.
        """

def start_sql_capture(spec_json: str) -> SqlCapture:
    """Start to make a trace of what clients and a server say, by proxy or packets (docs/sql.md).

    Raises ValueError, or OSError for a full disk, with what was seen, cause and next step;
    RuntimeError when the specification is none.
    """

def recover_trace(trace: str | PathLike[str]) -> int:
    """Make a trace of one whose capture was cut off; return how many statements it has.

    Raises ValueError with what was seen, cause and next step where there is none.
    """

@final
class SqlPlayback:
    """A trace that is being played in a background thread."""

    def wait(self, timeout_s: float) -> bool:
        """Wait at most so long; True when it has ended."""
    def live(self) -> dict[str, float]:
        """Return how far it is.

        ``elapsed_s``, ``answered``, of these ``failed``, ``skipped``, ``captured_total`` (0 until
        they are counted), ``lag_ns`` of the last statement, and ``open`` sessions.
        """
    def stop(self) -> None:
        """Ask it to end; what ran is kept."""
    def result(self) -> dict[str, Any]:
        """Return what came of it, once: a sample's parts as ``read_pgbench_logs`` does.

        Beside them ``record`` (JSON of ``seatrial.trials.replay.record.ReplayRecord``), ``end``
        (``complete``, ``interrupted`` or ``server_lost``) and ``words`` (the server's).

        Raises ValueError with a sentence when the trace or the server's address is none, OSError
        when the system refuses, RuntimeError for a defect.
        """

def start_sql_playback(spec_json: str) -> SqlPlayback:
    """Start to play a trace (docs/sql.md).

    Raises ValueError with a sentence when the specification is none, OSError when the system
    refuses a thread.
    """

def show_trace(trace: str | PathLike[str], top: int) -> str:
    """Return what a trace holds as JSON, with the ``top`` queries by their total time.

    Raises ValueError with what was seen, cause and next step when it is no trace.
    """

def trace_statements(trace: str | PathLike[str], first: int, count: int) -> list[dict[str, Any]]:
    """Return statements of a trace in the order of its log.

    Texts are str where they are UTF-8, else bytes; times are in us since 1970. Raises ValueError
    with what was seen, cause and next step when it is no trace.
    """

def trace_course(trace: str | PathLike[str]) -> str:
    """Return how a trace went as JSON: calls and time of each fingerprint, by slices of time.

    Raises ValueError with what was seen, cause and next step when it is no trace.
    """

def trace_examples(
    trace: str | PathLike[str], fingerprints: list[str]
) -> dict[str, dict[str, Any]]:
    """Return the first good statement of each fingerprint, as ``trace_statements`` does.

    Fingerprints are in 16 hexadecimal digits; one that has none is left out. Raises ValueError
    with what was seen, cause and next step when it is no trace.
    """

def trace_sequences(trace: str, catalog_json: str, databases: list[str]) -> str:
    """Return as JSON where sequences whose ids a trace uses stand, and stood when it begins.

    A list of ``sequence`` (its place in the catalogue), ``next_value_target`` and
    ``next_value_log``; None where it is not known. Raises ValueError for no trace.
    """

def fingerprint_sql(sql: str) -> tuple[str, str, str, int]:
    """Return fingerprint, text without values, class and number of statements of a text."""

def io_uring_status() -> str:
    """Return an empty string when io_uring works, else the reason by name."""

def forget_device(state_key: str) -> None:
    """Drop what lasts of a simulated device: the next sample under its key finds a fresh one."""

def one_pass_writes(blocks: int, over_provisioning_share: float) -> int:
    """Return how many writes fill so many blocks in one pass: about 1 + the share times as many."""

def clock_source() -> str:
    """Return ``tsc`` or ``monotonic``."""

__version__: str
