"""A model's parameters in words, with their intervals and the digits that these allow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from seatrial.stats.wording import DIGITS_MAX, format_iops
from seatrial.trials.audit.analysis.model import Parameter
from seatrial.trials.audit.queueing.fit import threads_matter
from seatrial.trials.audit.queueing.forms import PARAMETERS
from seatrial.units import KIB, MIB, US_PER_S

if TYPE_CHECKING:
    from seatrial.trials.audit.queueing.fit import Fit
    from seatrial.trials.audit.queueing.forms import Observations

Interval = tuple[float, float]

PER_REQUEST: Final = ("host_service_us", "locked_us")
EXCEEDED_FACTOR: Final = 1.05
REACHED_SHARE_MIN: Final = 0.75
NO_GAIN_RATIO: Final = 1.25
CELLS_PER_PARAMETER_MIN: Final = 4
SHOWN_OF_FEW_CELLS: Final = (
    *("setup_us", "host_service_us", "link_mib_per_s", "locked_us", "submit_us"),
)
UNIT_WORDS: Final = {"us": "µs", "us/MiB": "µs a MiB", "ratio": "", "count": ""}


def parameters_of(fitted: Fit, operation: str) -> list[Parameter]:
    """Return the parameters of a fit, in the order of its form.

    A parameter that the table does not determine has no sentence, nor has a limit that no cell
    came near, since it then follows from the form of the equation alone. A limit that cells exceed
    is an average over several effects, and its sentence says so.

    Args:
        fitted: The fit.
        operation: ``read`` or ``write``, for the sentences.
    """
    parameters = []
    for name in fitted.variant.names:
        value, interval = fitted.values[name], fitted.ends(name)
        parameters.append(
            Parameter(
                name=name,
                value=value,
                low=interval[0] if interval else None,
                high=interval[1] if interval else None,
                unit=PARAMETERS[name].unit,
                sentence=(
                    _sentence(name, interval, fitted, operation)
                    if interval and _is_seen(name, value, interval, fitted)
                    else ""
                ),
            )
        )
    return parameters


def _is_seen(name: str, value: float, ends: tuple[float, float], fitted: Fit) -> bool:
    """Return whether the cells of the table show a parameter directly."""
    observed = fitted.observed
    is_ample = len(observed) >= CELLS_PER_PARAMETER_MIN * len(fitted.variant.names)
    if not is_ample and name not in SHOWN_OF_FEW_CELLS:
        return False  # by simulation, such intervals cover the true value in at most half the cases
    if (reached := _reached_share(name, value, observed)) is not None:
        return reached >= REACHED_SHARE_MIN
    if name == "store_forward_kib":  # it must be shorter than the largest request to be visible
        return ends[1] * KIB < float(observed.size_bytes.max())
    return name != "admitted_count" or value < float(observed.concurrency.max())


def _reached_share(name: str, value: float, observed: Observations) -> float | None:
    """Return the share of a limit that the nearest cell reached; None if it limits no rate."""
    if name == "host_service_us":
        return float(observed.rate_per_s.max()) * value / US_PER_S
    if name == "link_mib_per_s":
        return float((observed.rate_per_s * observed.size_bytes).max()) / MIB / value
    if name == "submit_us":
        deep = observed.concurrency > observed.threads
        if not threads_matter(observed):
            return 0.0
        return float((observed.rate_per_s / observed.threads)[deep].max()) * value / US_PER_S
    return None


def _sentence(name: str, ends: tuple[float, float], fitted: Fit, operation: str) -> str:
    value = fitted.values[name]
    rates = fitted.observed.rate_per_s
    most_iops = float(rates.max())
    most_mib_per_s = float((rates * fitted.observed.size_bytes).max()) / MIB
    if name in PER_REQUEST and most_iops > EXCEEDED_FACTOR * US_PER_S / ends[0]:
        return (
            f"Average cost per I/O: {figure(value, ends, 'us')}; not a hard limit, since single "
            f"tests reached {format_iops(most_iops)} IOPS."
        )
    if name == "link_mib_per_s" and most_mib_per_s > EXCEEDED_FACTOR * ends[1]:
        return (
            f"Average bandwidth of large {operation}s: {figure(value, ends, 'MiB/s')}; not a hard "
            f"limit, since single tests reached {most_mib_per_s:,.0f} MiB/s."
        )
    template = _SENTENCES[name]
    if name in PER_REQUEST and fitted.observed.is_of_one_size:
        template = _ONE_SIZE
    elif name == "threads_gain_ratio" and ends[0] <= NO_GAIN_RATIO:
        template = _NO_GAIN
    return template.format(
        figure=figure(value, ends, PARAMETERS[name].unit),
        limit=_limit(value, ends) if "{limit}" in template else "",
        operation=operation,
        operations=f"{operation.capitalize()}s",
        # File systems lock a file against other writers; serialised reads are more likely a disk's.
        cause="a lock held for" if operation == "write" else "a service time of",
    )


def _limit(value: float, ends: Interval) -> str:
    """Return the rate that a time per request allows, with its interval."""
    return figure(US_PER_S / value, (US_PER_S / ends[1], US_PER_S / ends[0]), "")


def figure(value: float, interval: Interval, unit: str) -> str:
    """Return a value with its interval, such as ``15.9 µs (15.8 to 16.0)``."""
    decimals = _digits(value, interval) - 1 - math.floor(math.log10(value))
    words = UNIT_WORDS.get(unit, unit)
    text = f"{_rounded(value, decimals)} {words}".rstrip()
    return f"{text} ({_rounded(interval[0], decimals)} to {_rounded(interval[1], decimals)})"


def _digits(value: float, interval: Interval) -> int:
    """Return how many digits a value may show; the integer part is never rounded."""
    half_width = (interval[1] - interval[0]) / 2
    exponents = [math.floor(math.log10(each)) for each in (value, half_width)]
    whole = exponents[0] + 1
    return max(1, min(max(DIGITS_MAX, whole), exponents[0] - exponents[1] + 1))


def _rounded(value: float, decimals: int) -> str:
    return f"{round(value, decimals):,.{max(0, decimals)}f}"


_SENTENCES: Final = {
    "setup_us": "Base latency of a {operation}: {figure}, overlapped at higher queue depth.",
    "host_service_us": "Host cost per I/O: {figure}, which limits any drives to {limit} IOPS.",
    "submit_us": "Submitting a {operation} takes a thread {figure}, which limits one thread to "
    "{limit} IOPS at any queue depth; more threads reach more.",
    "link_mib_per_s": "Bandwidth ceiling: {figure}.",
    "store_forward_us_per_mib": "Store-and-forward delay for the first part of a request: "
    "{figure}.",
    "store_forward_kib": "Size of that first part: {figure}; the rest is streamed.",
    "admitted_count": "{operations} saturate at {figure} in flight.",
    "sub_page_us": "Additional latency of {operation}s below 4 KiB: up to {figure}.",
    "locked_us": "More threads do not help: {operation}s are serialised by {cause} {figure}, which "
    "limits them to {limit} IOPS.",
    "threads_gain_ratio": "Bandwidth of several threads: {figure} times that of one.",
    "request_us": "Fixed cost of a {operation}: {figure}.",
    "partial_stripe_us": "Cost of a page in a partial stripe: {figure}, including the read and "
    "write of parity.",
    "coalescing_exponent": "The cost of several pages in one stripe grows with the power {figure} "
    "of their number.",
    "stripe_kib": "Stripe size: {figure} of data.",
    "full_stripe_mib_per_s": "Full-stripe write bandwidth: {figure}.",
}
_ONE_SIZE: Final = (
    "{operations} saturate at {limit} IOPS ({figure} each). A single block size cannot show "
    "whether the limit is IOPS or bandwidth."
)
_NO_GAIN: Final = (
    "Several threads do not increase the bandwidth of {operation}s: {figure} times that of one."
)
