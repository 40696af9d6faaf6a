"""A model's parameters in words, with their intervals and no more digits than those allow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from seatrial.stats.wording import DIGITS_MAX, digits_allowed, format_iops
from seatrial.trials.audit.analysis.model import Parameter
from seatrial.trials.audit.queueing.choose import threads_matter
from seatrial.trials.audit.queueing.forms import KIB, MIB, PARAMETERS

if TYPE_CHECKING:
    from seatrial.trials.audit.queueing.fit import Fit
    from seatrial.trials.audit.queueing.forms import Observed

Interval = tuple[float, float] | None

US_PER_S: Final = 1e6
PER_REQUEST: Final = ("host_service_us", "locked_us")
EXCEEDED_FACTOR: Final = 1.05
REACHED_SHARE_MIN: Final = 0.75
NO_GAIN_RATIO: Final = 1.25
CELLS_PER_PARAMETER_MIN: Final = 4
TOLD_OF_FEW_CELLS: Final = (
    *("setup_us", "host_service_us", "link_mib_per_s", "locked_us", "submit_us"),
)
UNIT_WORDS: Final = {"us": "µs", "us/MiB": "µs a MiB", "ratio": "", "count": ""}


def parameters_of(fitted: Fit, operation: str) -> list[Parameter]:
    """Return the parameters of a fit, in the order of its form.

    A parameter that the table does not determine has no sentence. Nor has a limit that no cell of
    the table came near: what lies beyond what was measured follows from the form of the equation
    alone. A limit that cells exceed is a mean of what several things do, and its sentence says so.

    Args:
        fitted: The fit.
        operation: ``read`` or ``write``, for the words.
    """
    reported = []
    for name in fitted.variant.names:
        value, interval = fitted.values[name], fitted.ends(name)
        reported.append(
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
    return reported


def _is_seen(name: str, value: float, ends: tuple[float, float], fitted: Fit) -> bool:
    """Tell whether the cells of the table themselves show what a parameter is to say."""
    observed = fitted.observed
    is_ample = len(observed) >= CELLS_PER_PARAMETER_MIN * len(fitted.variant.names)
    if not is_ample and name not in TOLD_OF_FEW_CELLS:
        return False  # by simulation such intervals hold the truth in half of the cases at best
    if (reached := _reached_share(name, value, observed)) is not None:
        return reached >= REACHED_SHARE_MIN
    if name == "store_forward_kib":  # where it may be longer than all requests, none shows its end
        return ends[1] * KIB < float(observed.size_bytes.max())
    return name != "admitted_count" or value < float(observed.concurrency.max())


def _reached_share(name: str, value: float, observed: Observed) -> float | None:
    """Return how near to a limit the nearest cell came; None of what is no limit of rates."""
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
            f"One I/O costs {figure(value, ends, 'us')} on the whole; no hard limit, as single "
            f"cells reached {format_iops(most_iops)} IOPS."
        )
    if name == "link_mib_per_s" and most_mib_per_s > EXCEEDED_FACTOR * ends[1]:
        return (
            f"Large {operation}s move {figure(value, ends, 'MiB/s')} on the whole; no hard "
            f"limit, as single cells reached {most_mib_per_s:,.0f} MiB/s."
        )
    if name in PER_REQUEST and fitted.observed.is_of_one_size:
        return _one_size(value, ends, operation)
    return _SENTENCES[name](value, ends, operation)


def figure(value: float, interval: Interval, unit: str) -> str:
    """Return a value with its interval, such as ``15.9 µs (15.8 to 16.0)``."""
    decimals = _digits(value, interval) - 1 - math.floor(math.log10(value))
    words = UNIT_WORDS.get(unit, unit)
    reported = f"{_rounded(value, decimals)} {words}".rstrip()
    if interval is None:
        return f"{reported} (not determined)"
    return f"{reported} ({_rounded(interval[0], decimals)} to {_rounded(interval[1], decimals)})"


def _digits(value: float, interval: Interval) -> int:
    """Return how many digits a value may show: as anywhere, but whole numbers are told whole."""
    if interval is None:
        return digits_allowed(value, None)
    half_width = (interval[1] - interval[0]) / 2
    exponents = [math.floor(math.log10(each)) for each in (value, half_width)]
    whole = exponents[0] + 1
    return max(1, min(max(DIGITS_MAX, whole), exponents[0] - exponents[1] + 1))


def _rounded(value: float, decimals: int) -> str:
    return f"{round(value, decimals):,.{max(0, decimals)}f}"


def _setup(value: float, interval: Interval, operation: str) -> str:
    return (
        f"A {operation} alone waits {figure(value, interval, 'us')} more, which requests in "
        "flight share."
    )


def _host_service(value: float, interval: Interval, _operation: str) -> str:
    limit = None if interval is None else (US_PER_S / interval[1], US_PER_S / interval[0])
    return (
        f"One I/O costs the host {figure(value, interval, 'us')}: "
        f"{figure(US_PER_S / value, limit, '')} IOPS is its limit, whatever the drives."
    )


def _one_size(value: float, ends: tuple[float, float], operation: str) -> str:
    limit = (US_PER_S / ends[1], US_PER_S / ends[0])
    return (
        f"However many are in flight, the {operation}s end at "
        f"{figure(US_PER_S / value, limit, '')} IOPS: one each {figure(value, ends, 'us')}. One "
        "block size does not tell whether requests or their bytes are the limit."
    )


def _submit(value: float, interval: Interval, operation: str) -> str:
    limit = None if interval is None else (US_PER_S / interval[1], US_PER_S / interval[0])
    return (
        f"One thread takes {figure(value, interval, 'us')} to submit a {operation}, so that it "
        f"ends at {figure(US_PER_S / value, limit, '')} IOPS however many it keeps in flight: more "
        "threads give more."
    )


def _link(value: float, interval: Interval, _operation: str) -> str:
    return f"The link ends at {figure(value, interval, 'MiB/s')}."


def _store_forward(value: float, interval: Interval, _operation: str) -> str:
    return (
        "The beginning of a request is passed on only when it is whole, which takes "
        f"{figure(value, interval, 'us/MiB')}."
    )


def _store_forward_kib(value: float, interval: Interval, _operation: str) -> str:
    return f"That beginning is {figure(value, interval, 'KiB')} long; the rest streams."


def _admitted(value: float, interval: Interval, operation: str) -> str:
    return f"More than {figure(value, interval, 'count')} {operation}s in flight gain nothing."


def _sub_page(value: float, interval: Interval, operation: str) -> str:
    return f"{operation.capitalize()}s below 4 KiB take up to {figure(value, interval, 'us')} more."


def _locked(value: float, interval: Interval, operation: str) -> str:
    limit = None if interval is None else (US_PER_S / interval[1], US_PER_S / interval[0])
    # File systems lock a file against other writers; reads one by one are likelier a disk's.
    how = "pass one lock, held for" if operation == "write" else "pass one by one, each taking"
    return (
        f"Threads do not help: {operation}s {how} {figure(value, interval, 'us')}, so "
        f"{figure(US_PER_S / value, limit, '')} IOPS is the limit."
    )


def _threads_gain(value: float, interval: Interval, operation: str) -> str:
    if interval is not None and interval[0] > NO_GAIN_RATIO:
        return f"Several threads move the bytes {figure(value, interval, 'ratio')} times as fast."
    return (
        f"Several threads move the bytes of {operation}s no faster than one: "
        f"{figure(value, interval, 'ratio')} times."
    )


def _request(value: float, interval: Interval, operation: str) -> str:
    return f"A {operation} costs {figure(value, interval, 'us')} before any byte of it."


def _partial_stripe(value: float, interval: Interval, _operation: str) -> str:
    return (
        f"A page of a partial stripe costs {figure(value, interval, 'us')}: parity is read and "
        "written with it."
    )


def _coalescing(value: float, interval: Interval, _operation: str) -> str:
    return (
        "More pages of one stripe cost less than in proportion: as the power "
        f"{figure(value, interval, 'ratio')} of their number."
    )


def _stripe(value: float, interval: Interval, _operation: str) -> str:
    return f"A stripe holds {figure(value, interval, 'KiB')} of data."


def _full_stripe(value: float, interval: Interval, _operation: str) -> str:
    return f"Full stripes are written at {figure(value, interval, 'MiB/s')}."


_SENTENCES: Final[dict[str, Callable[[float, Interval, str], str]]] = {
    "setup_us": _setup,
    "host_service_us": _host_service,
    "submit_us": _submit,
    "link_mib_per_s": _link,
    "store_forward_us_per_mib": _store_forward,
    "store_forward_kib": _store_forward_kib,
    "admitted_count": _admitted,
    "sub_page_us": _sub_page,
    "locked_us": _locked,
    "threads_gain_ratio": _threads_gain,
    "request_us": _request,
    "partial_stripe_us": _partial_stripe,
    "coalescing_exponent": _coalescing,
    "stripe_kib": _stripe,
    "full_stripe_mib_per_s": _full_stripe,
}
