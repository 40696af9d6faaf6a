"""Stalls in response times: rare periods in which a device serves nothing.

A measured distribution of service times holds few of them, and each as one slow request, though all
that come meanwhile wait. So they are put into the simulated queue as periods of their own. A stall
of length L holds up a request that comes x after its begin by L - (1 - load) x, until the queue is
empty again at L / (1 - load): all servers work as fast as they can from L on. So the share of the
requests that wait for more than t is rate * E[max(L - t, 0)] / (1 - load), a sum over the lengths
that were seen (the fluid limit of a queue with interruptions: H. White, L. Christie, "Queuing with
preemptive priorities or with breakdown", Operations Research 6, 1958).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from seatrial.lazy import np
from seatrial.trials.plan.analysis.figure import TAIL_Z

if TYPE_CHECKING:
    from numpy.typing import NDArray

OF_STORAGE: Final = frozenset({"device", "filesystem", "unknown"})
"""Causes of stalls that come with the storage; limits and generators have their own."""
PRIOR_COUNT: Final = 0.5
"""Of a rate after n events in a time T: Gamma(n + 1/2, T), as of failed drives."""
LOAD_MAX: Final = 0.999


@dataclass(frozen=True, kw_only=True)
class ObservedStalls:
    """Stalls that a run observed.

    Attributes:
        lengths_s: Lengths; empty if there was none.
        watched_s: Length of the observation.
        least_s: Shortest time without completions that counts as a stall.
    """

    lengths_s: tuple[float, ...]
    watched_s: float
    least_s: float

    def per_s(self, normal: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rate of stalls in scenarios, from the posterior of the observed count."""
        from scipy.special import gammaincinv, ndtr  # noqa: PLC0415 - likewise

        count = len(self.lengths_s) + PRIOR_COUNT
        return np.asarray(gammaincinv(count, ndtr(normal)) / self.watched_s)

    def per_hour(self) -> tuple[float, float]:
        """Return stalls an hour, as the quantiles of 5 and 95 % over the scenarios."""
        low, high = self.per_s(np.array([-TAIL_Z, TAIL_Z])) * 3600
        return float(low), float(high)

    def words(self) -> str:
        """Return how many were seen, how long they were, and how many an hour that may be."""
        low, high = self.per_hour()
        watched = f"in {self.watched_s:,.0f} s"
        if not self.lengths_s:
            return (
                f"none {watched}, so up to {high:,.2g} an hour, taken as {self.least_s:g} s long, "
                "the shortest that counts"
            )
        longest = max(self.lengths_s)
        mean = sum(self.lengths_s) / len(self.lengths_s)
        return (
            f"{len(self.lengths_s)} {watched}, {low:,.2g} to {high:,.2g} an hour, "
            f"{mean:.2g} s long on average, at most {longest:.2g} s"
        )

    def waiting_share(
        self, per_s: NDArray[np.float64], load_share: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the share of the requests that wait for stalls, 1 at most."""
        lengths_s = self._lengths()
        left = 1 - np.minimum(load_share, LOAD_MAX)
        return np.asarray(np.minimum(1.0, per_s * lengths_s.mean() / left))

    def wait_s(
        self,
        per_s: NDArray[np.float64],
        load_share: NDArray[np.float64],
        share: float,
    ) -> NDArray[np.float64]:
        """Return how long that share of the requests waits for stalls at least; 0 for fewer."""
        ordered = np.sort(self._lengths())
        starts_s = np.concatenate([[0.0], ordered])
        mean_excess_s = np.array([np.maximum(ordered - start_s, 0).mean() for start_s in starts_s])
        mean_wanted_s = share * (1 - np.minimum(load_share, LOAD_MAX)) / np.maximum(per_s, 1e-300)
        return np.asarray(np.interp(-mean_wanted_s, -mean_excess_s, starts_s))

    def _lengths(self) -> NDArray[np.float64]:
        return np.array(self.lengths_s or (self.least_s,))
