"""The three equations that a table may follow, their parameters, and where a fit starts.

The equations are those of docs/method.md, "Models and gaps". Each takes parameters of any shape
that broadcasts against the cells, so that one call computes a whole Jacobian.

Source: M. Reiser and S. S. Lavenberg, "Mean-value analysis of closed multichain queuing networks",
Journal of the ACM 27 (2), 1980. One class of customers; stations with one server whose service
times are exponential or that share their processor. A fractional population is interpolated
linearly: an array that admits 7.7 requests on average admits 7 or 8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from seatrial.lazy import np
from seatrial.units import KIB, MIB

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

SETTLED_SHARE = 1e-8
CHECKED_EVERY = 8


def throughput_per_s(delay_s: Array, demands_s: Sequence[Array], population: Array) -> Array:
    """Return the throughput of many closed networks at once.

    All arguments broadcast against each other; the result has their common shape.

    Args:
        delay_s: Time that a customer spends outside of all queues, per pass.
        demands_s: Service time of one customer at each queueing station.
        population: Customers in the network, at least 0, possibly fractional.

    Raises:
        ValueError: when a population is negative or a network takes no time at all.
    """
    delay, population, *demands = np.broadcast_arrays(delay_s, population, *demands_s)
    if population.size == 0:
        return np.zeros(population.shape)
    if population.min() < 0:
        raise ValueError("a population is at least 0")
    if (delay + sum(demands)).min() <= 0:
        raise ValueError("a network without delay and demand has no throughput")
    by_population = _by_whole_population(delay, demands, int(np.ceil(population.max())))
    settled = len(by_population) - 1
    below = np.minimum(np.floor(population).astype(np.intp), settled)
    above = np.minimum(np.ceil(population).astype(np.intp), settled)
    at_below = np.take_along_axis(by_population, below[np.newaxis], axis=0)[0]
    at_above = np.take_along_axis(by_population, above[np.newaxis], axis=0)[0]
    interpolated: Array = at_below + (at_above - at_below) * (population - np.floor(population))
    return interpolated


def _by_whole_population(delay: Array, demands: Sequence[Array], population_max: int) -> Array:
    """Return the throughput for 0, 1 ... customers along a first axis, by the exact recursion.

    It ends where another customer adds nothing anywhere.
    """
    stations = np.stack([*demands]) if demands else np.zeros((0, *delay.shape))
    throughput = np.zeros((population_max + 1, *delay.shape))
    times = np.zeros(stations.shape)  # how many wait at each, then how long; reused, for speed
    for customers in range(1, population_max + 1):
        # Arrival theorem: an arriving customer sees the queue of a network with one customer less.
        times += 1
        times *= stations
        passing = delay.copy()
        for residence in times:
            passing += residence
        np.divide(customers, passing, out=throughput[customers])
        times *= throughput[customers]
        if customers % CHECKED_EVERY == 0 and _is_settled(throughput, customers):
            return throughput[: customers + 1]
    return throughput


def _is_settled(throughput: Array, customers: int) -> bool:
    """Return whether another customer adds nothing; throughput is concave, so no more do."""
    gained = throughput[customers] - throughput[customers - 1]
    return bool((gained <= SETTLED_SHARE * throughput[customers]).all())


if TYPE_CHECKING:
    Values = Mapping[str, Array]

FormName = Literal["read", "locked_write", "parity_write"]

PAGE_BYTES: Final = 4096
US: Final = 1e-6


@dataclass(frozen=True)
class Observations:
    """The cells of a table with a figure, as arrays of equal length.

    Attributes:
        size_bytes: Block sizes.
        concurrency: Requests in flight.
        threads: Workers that keep them in flight; each submits one request after another.
        rate_per_s: Requests per second, all above 0.
    """

    size_bytes: Array
    concurrency: Array
    threads: Array
    rate_per_s: Array

    @property
    def is_of_one_size(self) -> bool:
        """Whether all cells have one block size."""
        return len({float(size) for size in self.size_bytes}) == 1

    def subset(self, where: NDArray[Any]) -> Observations:
        """Return some of the cells, by a mask or by indices."""
        return Observations(
            self.size_bytes[where],
            self.concurrency[where],
            self.threads[where],
            self.rate_per_s[where],
        )

    def __len__(self) -> int:
        return len(self.rate_per_s)


@dataclass(frozen=True)
class ParameterSpec:
    """One parameter of a form; its name ends in its unit.

    Attributes:
        name: Stable name.
        unit: As in ``audit.model.Parameter``.
        lowest: Smallest value for a fit.
        highest: Largest value for a fit.
    """

    name: str
    unit: str
    lowest: float
    highest: float


@dataclass(frozen=True)
class Variant:
    """A form with the parameters that are used; the others are omitted from its equation.

    Attributes:
        form: Which equation.
        names: The parameters that are fitted.
    """

    form: FormName
    names: tuple[str, ...]

    def rate_per_s(
        self, values: Values, size_bytes: Array, concurrency: Array, threads: Array | None = None
    ) -> Array:
        """Return requests per second for parameters by name.

        Args:
            values: The parameters.
            size_bytes: Block sizes.
            concurrency: Requests in flight.
            threads: Workers that submit them; None for one per request.
        """
        if threads is None:
            threads = concurrency
        return _EQUATIONS[self.form](values, size_bytes, concurrency, threads)

    def seeds(self, observed: Observations) -> list[dict[str, float]]:
        """Return start parameters of a fit, the likeliest first, estimated from the corners."""
        return [{name: seed[name] for name in self.names} for seed in _SEEDS[self.form](observed)]


def _read(values: Values, size_bytes: Array, concurrency: Array, threads: Array) -> Array:
    """Closed network: a delay, a station with work per request, a link with work per byte.

    Threads with several requests in flight are a station, too, with a server each.
    """
    delay_us = values["setup_us"] + _sub_page_us(values, size_bytes)
    stations_s = [values["host_service_us"] * US]
    if "store_forward_us_per_mib" in values:
        forwarded_bytes = np.minimum(size_bytes, values["store_forward_kib"] * KIB)
        delay_us = delay_us + values["store_forward_us_per_mib"] * forwarded_bytes / MIB
    admitted = concurrency
    if "admitted_count" in values:
        admitted = np.minimum(concurrency, values["admitted_count"])
    if "link_mib_per_s" in values:
        stations_s.append(size_bytes / (values["link_mib_per_s"] * MIB))
    if "submit_us" in values:
        queued_us = _queued_submit_us(values["submit_us"], concurrency, threads)
        delay_us = delay_us + values["submit_us"] - queued_us
        stations_s.append(queued_us * US)
    return throughput_per_s(delay_us * US, stations_s, admitted)


def _queued_submit_us(submit_us: Array, concurrency: Array, threads: Array) -> Array:
    """Return the part of a submission for which requests may queue; the rest is a delay.

    A station of several servers is approximated by one faster server and a delay for the rest of
    the
    service: A. Seidmann, P. J. Schweitzer and S. Shalev-Oren, "Computerized closed queueing network
    models of flexible manufacturing systems", Large Scale Systems 12 (1987). Threads with one
    request each have no queue.
    """
    queued: Array = np.where(concurrency > threads, submit_us / threads, 0.0)
    return queued


def _locked_write(values: Values, size_bytes: Array, concurrency: Array, _threads: Array) -> Array:
    """One request at a time: a lock, held for a fixed time and one per byte."""
    locked_us = values["locked_us"] + _sub_page_us(values, size_bytes)
    if "link_mib_per_s" not in values:
        return 1 / (locked_us * US)
    gain = np.ones(size_bytes.shape)
    if "threads_gain_ratio" in values:
        gain = np.where(concurrency > 1, values["threads_gain_ratio"], 1.0)
    return 1 / (locked_us * US + size_bytes / (values["link_mib_per_s"] * MIB * gain))


def _sub_page_us(values: Values, size_bytes: Array) -> Array:
    """Return the cost of the part of a page that a request does not cover."""
    if "sub_page_us" not in values:
        return np.zeros(size_bytes.shape)
    return values["sub_page_us"] * np.maximum(0.0, (PAGE_BYTES - size_bytes) / PAGE_BYTES)


def _parity_write(values: Values, size_bytes: Array, _concurrency: Array, _threads: Array) -> Array:
    """A fixed time, the cost of partial stripes, and full stripes at the array's bandwidth."""
    partial_pages = np.minimum(size_bytes, values["stripe_kib"] * KIB) / PAGE_BYTES
    partial_us = values["partial_stripe_us"] * partial_pages ** values["coalescing_exponent"]
    full_s = size_bytes / (values["full_stripe_mib_per_s"] * MIB)
    return 1 / ((values["request_us"] + partial_us) * US + full_s)


_EQUATIONS: Final[dict[FormName, Callable[[Values, Array, Array, Array], Array]]] = {
    "read": _read,
    "locked_write": _locked_write,
    "parity_write": _parity_write,
}


def _read_seeds(observed: Observations) -> list[dict[str, float]]:
    """Smallest blocks alone give setup and service, the highest rates service and link."""
    alone_us, busy_us, link_mib_per_s = _corners(observed)
    first = {
        "setup_us": max(alone_us - busy_us, 0.05 * alone_us),
        "host_service_us": busy_us,
        "link_mib_per_s": link_mib_per_s,
        "store_forward_us_per_mib": 0.25 * MIB / link_mib_per_s / MIB / US,
        "store_forward_kib": 512.0,
        "admitted_count": 8.0,
        "sub_page_us": 0.5 * alone_us,
        "submit_us": _least_submit_us(observed),
    }
    return [
        first,
        first | {"store_forward_kib": 64.0, "admitted_count": 32.0},
        first | {"store_forward_kib": 4096.0, "admitted_count": 2.0},
    ]


def _least_submit_us(observed: Observations) -> float:
    """Return the time for each request of a thread where it submitted the most."""
    return float(1 / (observed.rate_per_s / observed.threads).max() / US)


def _locked_seeds(observed: Observations) -> list[dict[str, float]]:
    _, busy_us, link_mib_per_s = _corners(observed)
    return [
        {
            "locked_us": busy_us,
            "link_mib_per_s": link_mib_per_s,
            "threads_gain_ratio": 1.0,
            "sub_page_us": 0.1 * busy_us,
        }
    ]


def _parity_seeds(observed: Observations) -> list[dict[str, float]]:
    _, busy_us, link_mib_per_s = _corners(observed)
    seed = {
        "request_us": 0.5 * busy_us,
        "partial_stripe_us": 2 * busy_us,
        "coalescing_exponent": 0.6,
        "full_stripe_mib_per_s": link_mib_per_s,
    }
    return [seed | {"stripe_kib": stripe_kib} for stripe_kib in (384.0, 64.0, 1536.0)]


_SEEDS: Final[dict[FormName, Callable[[Observations], list[dict[str, float]]]]] = {
    "read": _read_seeds,
    "locked_write": _locked_seeds,
    "parity_write": _parity_seeds,
}


def _corners(observed: Observations) -> tuple[float, float, float]:
    """Return time per request of small blocks alone (us), the least time (us), and most MiB/s."""
    alone = observed.subset(observed.concurrency == observed.concurrency.min())
    smallest = alone.rate_per_s[np.argsort(alone.size_bytes)[:4]]
    moved = observed.rate_per_s * observed.size_bytes
    return (
        float(1 / np.median(smallest) / US),
        float(1 / observed.rate_per_s.max() / US),
        float(moved.max() / MIB),
    )


PARAMETERS: Final[dict[str, ParameterSpec]] = {
    spec.name: spec
    for spec in (
        ParameterSpec("setup_us", "us", 1e-3, 1e7),
        ParameterSpec("host_service_us", "us", 1e-3, 1e7),
        ParameterSpec("link_mib_per_s", "MiB/s", 1e-2, 1e7),
        ParameterSpec("store_forward_us_per_mib", "us/MiB", 1e-2, 1e8),
        ParameterSpec("store_forward_kib", "KiB", 0.5, 1 << 20),
        ParameterSpec("admitted_count", "count", 1.0, 1 << 16),
        ParameterSpec("sub_page_us", "us", 1e-3, 1e7),
        ParameterSpec("submit_us", "us", 1e-3, 1e7),
        ParameterSpec("locked_us", "us", 1e-3, 1e7),
        ParameterSpec("threads_gain_ratio", "ratio", 0.1, 64.0),
        ParameterSpec("request_us", "us", 1e-3, 1e7),
        ParameterSpec("partial_stripe_us", "us", 1e-3, 1e7),
        ParameterSpec("coalescing_exponent", "ratio", 0.02, 2.0),
        ParameterSpec("stripe_kib", "KiB", 8.0, 1 << 16),
        ParameterSpec("full_stripe_mib_per_s", "MiB/s", 1e-2, 1e7),
    )
}
"""Every parameter by name; bounds only limit the fit and are not assumptions."""

_BASE = ("setup_us", "host_service_us", "link_mib_per_s")
_FORWARD = ("store_forward_us_per_mib", "store_forward_kib")

_ONE_SIZE = ("setup_us", "host_service_us")
"""With one block size, the costs of a request and of its bytes are one time."""

VARIANTS: Final[tuple[Variant, ...]] = (
    Variant("locked_write", ("locked_us",)),
    Variant("locked_write", ("locked_us", "link_mib_per_s")),
    Variant("read", _ONE_SIZE),
    Variant("locked_write", ("locked_us", "link_mib_per_s", "threads_gain_ratio")),
    Variant("locked_write", ("locked_us", "link_mib_per_s", "sub_page_us")),
    Variant("read", _BASE),
    Variant("read", (*_ONE_SIZE, "admitted_count")),
    Variant("read", (*_ONE_SIZE, "submit_us")),
    Variant("read", (*_BASE, "admitted_count")),
    Variant("read", (*_BASE, "submit_us")),
    Variant("read", (*_BASE, "admitted_count", "sub_page_us")),
    Variant("read", (*_BASE, "submit_us", "admitted_count")),
    Variant("read", (*_BASE, *_FORWARD)),
    Variant(
        "parity_write",
        ("request_us", "partial_stripe_us", "coalescing_exponent", "stripe_kib",
         "full_stripe_mib_per_s"),
    ),
    Variant("read", (*_BASE, *_FORWARD, "admitted_count")),
    Variant("read", (*_BASE, *_FORWARD, "submit_us")),
    Variant("read", (*_BASE, *_FORWARD, "admitted_count", "sub_page_us")),
    Variant("read", (*_BASE, *_FORWARD, "submit_us", "admitted_count", "sub_page_us")),
)  # fmt: skip
"""Variants tried on a table, the fewest parameters first."""
