"""The certificate of a run in words: promised, delivered, price of what was sustained."""

from __future__ import annotations

from seatrial.catalogue.units import Money, format_money
from seatrial.report.table import Table
from seatrial.stats.wording import format_estimate, format_plural
from seatrial.study.units import format_size
from seatrial.trials.plan.analysis.certificate import Certificate, PromiseCheck
from seatrial.trials.plan.report.caps_text import rate_phrase

_NOTHING = "–"


def verdict_line(found: Certificate) -> str:
    """Return whether the promises were kept, and the price of what was sustained, in one line."""
    tested = [each for each in found.promises if each.verdict != "not tested"]
    kept = sum(each.verdict != "not reached" for each in tested)
    parts = []
    if tested:
        parts.append(f"{kept} of {format_plural(len(tested), 'promise')} kept")
    if found.sustained:
        first = found.sustained[0]
        text = f"{first.what}: {format_estimate(first.rate)}"
        if first.per_million is not None:
            text += f", {_price(first.per_million)} per million"
        parts.append(text)
    return f"{'; '.join(parts)}." if parts else "Nothing was sustained."


def _price(money: Money) -> str:
    """Return a small amount with the digits that it needs."""
    if money.low == 0 < money.high:
        return f"at most {money.high:.3g} {money.currency}"
    if money.low == money.high:
        return f"{money.mid:.3g} {money.currency}"
    return f"{money.mid:.3g} ({money.low:.3g} to {money.high:.3g}) {money.currency}"


def promises_table(found: Certificate) -> Table:
    """Return promised against delivered."""
    return Table(
        id="table-promises",
        title="Promised and delivered",
        labels=1,
        headers=["Promise", "Promised", "Delivered", "Verdict", "Test", "Origin"],
        rows=[_promise(each) for each in found.promises],
    )


def _promise(each: PromiseCheck) -> list[str]:
    cap = each.cap
    return [
        f"{cap.subject} {cap.name}, {cap.quantity}",
        rate_phrase(cap.quantity, cap.per_s),
        format_estimate(each.delivered),
        each.verdict,
        each.cell,
        cap.origin,
    ]


def sustained_table(found: Certificate) -> Table:
    """Return what was sustained and its price."""
    return Table(
        id="table-sustained",
        title="Sustained rate and its price",
        labels=1,
        headers=["Test", "What", "Per second", "p99", "Per million"],
        rows=[
            [
                each.cell,
                each.what,
                format_estimate(each.rate),
                _NOTHING if each.p99 is None else format_estimate(each.p99),
                _NOTHING if each.per_million is None else _price(each.per_million),
            ]
            for each in found.sustained
        ],
    )


def notes(found: Certificate) -> list[str]:
    """Return what the figures rest on, in sentences."""
    lines = []
    if any(each.verdict == "exceeded" for each in found.promises):
        lines.append(
            "Rates above the promise do not last: credits were spent, or a cache answered. No "
            "price per million is given."
        )
    if any(each.verdict == "not reached" for each in found.promises):
        lines.append(
            "If a promise was not reached, the load may have been too low: repeat the test with a "
            "higher queue depth or larger blocks."
        )
    lines += [
        f"The promise of {each.cap.limited} was not tested, because requests of the sizes tested "
        f"reach another promise first: test blocks of {format_size(int(each.block_size_bytes))}."
        for each in found.promises
        if each.block_size_bytes is not None
    ]
    if found.month is not None:
        lines.append(
            f"Price: {format_money(found.month)} per month ({found.month_origin}); a million costs "
            "its share of that if the rate lasts the whole month."
        )
    lines.append(f"Fewest rounds of any test: {found.rounds:g}.")
    lines += [f"Caveat: {each}" for each in found.warnings]
    lines.append(f"To repeat it: {found.command}")
    return lines
