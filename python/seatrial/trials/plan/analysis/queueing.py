"""Response times of k servers, simulated with the distribution of their service times.

A formula for exponential times (M/M/k) is several times too low where a few requests take long:
with 2 % of 5 ms on eight servers at 60 % load, p99 is 5 ms against 0.9. So service times are drawn
from a measured histogram, or from a log-normal prior, and requests queue for the first free server
(Kiefer and Wolfowitz, "On the theory of queues with many servers", 1955).
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from seatrial.lazy import np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

LOADS: Final = (0.05, 0.2, 0.4, 0.55, 0.7, 0.8, 0.87, 0.93, 0.97)
"""Utilisations for which a curve is simulated."""
SERVERS: Final = (1, 2, 4, 8, 16, 32, 64)
REQUESTS: Final = 4000
REPETITIONS: Final = 24
WARM_UP_SHARE: Final = 0.1
SHAPE_SEED: Final = 7
QUANTILES: Final = 4000


@dataclass(frozen=True, kw_only=True)
class Service:
    """A distribution of service times with a mean of 1.

    Attributes:
        values: Its quantiles, evenly spaced in probability; shape (QUANTILES,).
    """

    values: NDArray[np.float64]

    def draw(self, random: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return service times of that shape."""
        return self.values[random.integers(0, len(self.values), shape)]


def log_normal(sigma: float) -> Service:
    """Return a log-normal distribution of mean 1."""
    from scipy.special import ndtri  # noqa: PLC0415 - likewise

    probabilities = (np.arange(QUANTILES) + 0.5) / QUANTILES
    values = np.exp(sigma * ndtri(probabilities))
    return Service(values=values / values.mean())


def measured_service(times: Sequence[float]) -> Service:
    """Return the distribution of measured times, each as likely.

    Raises:
        ValueError: when there is none above 0.
    """
    values = np.sort(np.asarray(times, dtype=np.float64))
    if not len(values) or values.mean() <= 0:
        raise ValueError("service times need a mean above 0")
    return Service(values=values / values.mean())


def queued(
    arrivals: NDArray[np.float64], service_s: NDArray[np.float64], servers: int
) -> NDArray[np.float64]:
    """Return response times of requests that wait for the first free server.

    Args:
        arrivals: When each request arrives; shape (requests, repetitions), all simulated at once.
        service_s: How long each is served, in the same unit and shape.
        servers: Number of servers.
    """
    width = arrivals.shape[1]
    free_at = np.zeros((width, servers))
    rows = np.arange(width)
    responses = np.empty_like(arrivals)
    for request, arrived in enumerate(arrivals):
        first = free_at.argmin(axis=1)
        end = np.maximum(arrived, free_at[rows, first]) + service_s[request]
        free_at[rows, first] = end
        responses[request] = end - arrived
    return responses


def _gaps(
    random: np.random.Generator,
    requests: int,
    repetitions: int,
    gaps: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    if gaps is None:
        return random.exponential(size=(requests, repetitions))
    begins = random.integers(0, len(gaps), repetitions)
    indexes = (np.arange(requests)[:, None] + begins[None, :]) % len(gaps)
    return np.asarray(gaps[indexes] / gaps.mean())


_TABLES: Final[dict[bytes, NDArray[np.float64]]] = {}
"""Simulated curves by the hash of their inputs, so that none is simulated twice."""


TAIL_SHARES: Final = (1.0, 0.8, 0.6, 0.4, 0.2, 0.1, 0.05)
"""Shares of the requests above a percentile for which higher percentiles are kept as well: if some
of the slowest requests are due to stalls, the percentile is a higher one of the others."""


class Curve:
    """A percentile of response times by load and servers, in mean service times.

    Args:
        service: Service times.
        percentile: Such as 99.
        gaps: Recorded gaps between arrivals; None for a Poisson process.
    """

    def __init__(
        self, service: Service, percentile: float, gaps: NDArray[np.float64] | None = None
    ) -> None:
        self._service = service
        self._percentile = percentile
        self._gaps = gaps

    @functools.cached_property
    def table(self) -> NDArray[np.float64]:
        """Simulated for each of SERVERS, TAIL_SHARES and LOADS; never falls with the load."""
        gaps = b"" if self._gaps is None else self._gaps.tobytes()
        about = self._service.values.tobytes() + gaps + f"{self._percentile}".encode()
        key = hashlib.sha256(about).digest()
        if key not in _TABLES:
            _TABLES[key] = self._simulated()
        return _TABLES[key]

    def _simulated(self) -> NDArray[np.float64]:
        responses = np.empty((len(SERVERS), len(TAIL_SHARES), len(LOADS)))
        for row, servers in enumerate(SERVERS):
            responses[row] = self._row(servers)
        return np.maximum.accumulate(responses, axis=2)

    def _row(self, servers: int) -> NDArray[np.float64]:
        """Return the percentiles at each load: all loads and repetitions side by side."""
        random = np.random.default_rng(SHAPE_SEED)
        share = np.repeat(np.array(LOADS), REPETITIONS)
        between = np.tile(_gaps(random, REQUESTS, REPETITIONS, self._gaps), (1, len(LOADS)))
        arrivals = np.cumsum(between / (servers * share), axis=0)
        service_s = np.tile(self._service.draw(random, (REQUESTS, REPETITIONS)), (1, len(LOADS)))
        responses = queued(arrivals, service_s, servers)
        kept = responses[int(REQUESTS * WARM_UP_SHARE) :].reshape(-1, len(LOADS), REPETITIONS)
        by_load = np.moveaxis(kept, 1, 0).reshape(len(LOADS), -1)
        above = 100 - self._percentile
        percents = [100 - share * above for share in TAIL_SHARES]
        return np.asarray(np.percentile(by_load, percents, axis=1))

    def at(
        self,
        servers: float,
        load_share: NDArray[np.float64],
        tail_share: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Return the percentile by load; infinite if the load cannot be served.

        Args:
            servers: Number of servers.
            load_share: Utilisation of the servers.
            tail_share: Share of those above the percentile that are not stalled; None for all.
        """
        position = np.interp(np.log(max(servers, 1.0)), np.log(SERVERS), np.arange(len(SERVERS)))
        low = int(position)
        high = min(low + 1, len(SERVERS) - 1)
        rows = self.table[low] + (position - low) * (self.table[high] - self.table[low])
        responses = np.interp(load_share, LOADS, rows[0])
        if tail_share is not None:
            by_tail = np.array([np.interp(load_share, LOADS, row) for row in rows])
            levels = np.interp(-tail_share, [-each for each in TAIL_SHARES], range(len(rows)))
            under = np.minimum(levels.astype(np.int64), len(rows) - 2)
            first, second = (
                np.take_along_axis(by_tail, (under + step)[None], axis=0)[0] for step in (0, 1)
            )
            responses = first + (levels - under) * (second - first)
        # Near full utilisation a response is nearly all waiting, which grows as 1 / (1 - load).
        with np.errstate(divide="ignore"):
            beyond = (1.0 - LOADS[-1]) / np.maximum(1.0 - load_share, 0.0)
        return np.where(load_share >= 1.0, np.inf, responses * np.maximum(1.0, beyond))
