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

def io_uring_status() -> str:
    """Return an empty string when io_uring works, else the reason by name."""

def forget_device(state_key: str) -> None:
    """Drop what lasts of a simulated device: the next sample under its key finds a fresh one."""

def one_pass_writes(blocks: int, over_provisioning_share: float) -> int:
    """Return how many writes fill so many blocks in one pass: about 1 + the share times as many."""

def clock_source() -> str:
    """Return ``tsc`` or ``monotonic``."""

__version__: str
