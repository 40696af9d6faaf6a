"""A plan as text: the answer, overlapping candidates, reasons of refusal, the proof."""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.catalogue.units import format_money
from seatrial.report.table import Table
from seatrial.stats.wording import (
    format_count,
    format_duration_s,
    format_first,
    format_plural,
    format_share,
)
from seatrial.study.units import format_size
from seatrial.trials.plan.analysis import scenarios
from seatrial.trials.plan.analysis.answer import Choice, StoragePlan
from seatrial.trials.plan.analysis.commits import CommitForecast
from seatrial.trials.plan.analysis.figure import Figure
from seatrial.trials.plan.report.caps_text import rate_phrase
from seatrial.trials.plan.report.risk_text import chance_phrase, figure_phrase, years_phrase
from seatrial.units import DAY_S

CHOICES_MAX = 12
REFUSALS_MAX = 3
_NOTHING = "–"
_SIZE_NOW = (
    "Look at the size of the database now and a month ago, and set --capacity and --growth by it."
)
_HOW = {
    scenarios.OTHER_DAY: "Record more days: `seatrial watch --record FILE`, and plan with the "
    "busiest one.",
    scenarios.FOLLOWS: "Record the server's disk while it works: `seatrial watch --record FILE`.",
    scenarios.GROWTH: _SIZE_NOW,
    scenarios.CAPACITY: _SIZE_NOW,
    "prices": "Ask for the price, and set it: `seatrial catalogue set prices/KEY mid=PRICE`.",
}
"""How an unknown input is measured, by its name."""
_SAFE_ENOUGH = 0.02
"""A probability of loss in a year that is named in the first sentence if it is higher."""


def verdict_line(plan: StoragePlan) -> str:
    """Return the answer in one line, or that nothing fits, or that the first ones overlap."""
    if not plan.choices:
        first = (
            f" Nearest: {plan.refused[0].name}, refused: {refusal_reason(plan.refused[0], plan)}"
        )
        return "No candidate with a known price fits." + (first if plan.refused else "")
    best = plan.choices[0]
    if plan.lacks:
        return (
            f"Not ranked, as the log has no block I/O. Its commits alone fit on {best.name}: "
            f"{_summary(best, plan)}."
        )
    if others := plan.overlapping[1:]:
        return f"Not ranked: {best.name} ({_summary(best, plan)}) and {_names(others)} overlap."
    return f"Least regret: {best.name}, {_summary(best, plan)}."


def _names(choices: list[Choice]) -> str:
    """Return the names of the first three, and how many more there are."""
    return format_first([each.name for each in choices], 3)


def _summary(choice: Choice, plan: StoragePlan) -> str:
    parts = [
        f"{format_money(choice.month)} per month",
        f"fits in {format_share(choice.fit_share)} of {format_count(plan.worlds)} scenarios",
    ]
    if plan.objective is not None:
        parts.append(
            f"{plan.objective.operation} {plan.objective.percentile} {times_phrase(choice)}"
        )
    if choice.lost_per_year.mid >= _SAFE_ENOUGH or not choice.is_redundant:
        chance = chance_phrase(choice.lost_per_year.mid)
        parts.append(f"loses its data with a probability of {chance} per year")
    return ", ".join(parts)


def times_phrase(choice: Choice) -> str:
    """Return the percentile with its interval; an infinite end is an overload."""
    if choice.response_ms_mid is None:
        return "not served in most scenarios"
    low, mid = choice.response_ms_low or 0.0, choice.response_ms_mid
    if choice.response_ms_high is None:
        return f"{_ms(mid)} ms ({_ms(low)} ms to overload)"
    return f"{_ms(mid)} ms ({_ms(low)} to {_ms(choice.response_ms_high)})"


def _ms(value_ms: float) -> str:
    """Return milliseconds to two digits, and whole ones from a hundred on."""
    return f"{value_ms:,.0f}" if value_ms >= 99.5 else f"{value_ms:.2g}"


def separating_sentences(plan: StoragePlan) -> list[str]:
    """Return which one measurement would separate those that overlap; empty where none does."""
    if plan.lacks:
        return [plan.lacks]
    if not plan.choices or len(plan.overlapping) < 2:
        return []
    measurement = plan.measurement
    if measurement is None:
        return [
            "No measurement would separate them: they differ by less than 2 % of the price in "
            "any scenario, so take the one that you know best."
        ]
    currency = plan.choices[0].month.currency
    return [
        f"One measurement would separate {plan.choices[0].name} from {measurement.other}: "
        f"{measurement.name}, worth {measurement.worth:,.2f} {currency} per month. "
        f"{_how(measurement.name)}"
    ]


def _how(name: str) -> str:
    """Return how an unknown input is measured."""
    if name.startswith("times of "):
        kind = name.removeprefix("times of ").partition("/")[0].split()[0]
        return (
            f"Rent it for an hour, run `seatrial io DIR --block-size 8k`, and add --measured "
            f"{kind}=RUN."
        )
    if name.startswith("stalls of "):
        return "Watch it for longer: `seatrial io DIR --block-size 8k --seconds 3600`."
    return _HOW.get(
        name, "Measure how much of its data sheet lasts: `seatrial precondition DEVICE --plan`."
    )


def refusal_reason(choice: Choice, plan: StoragePlan) -> str:
    """Return why a candidate is refused, in a sentence."""
    missed = format_share(1 - choice.fit_share)
    if choice.miss == "load":
        sustained = rate_phrase(choice.binding_quantity, choice.binding_per_s)
        load = rate_phrase(choice.binding_quantity, choice.binding_load_per_s)
        return (
            f"{choice.binding} carries {sustained}, but the load's busiest slot takes {load}"
            f"{_units_phrase(choice, plan)}{_cached_phrase(choice)} before growth and differences "
            f"between days; it falls short in {missed} of the scenarios."
        )
    if choice.miss == "capacity":
        return (
            f"it holds {format_size(int(choice.capacity_bytes))}, and "
            f"{format_size(int(plan.capacity.mid))} are to be stored before growth."
        )
    if choice.miss == "objective" and plan.objective is not None:
        return (
            f"{plan.objective.operation} {plan.objective.percentile} is {times_phrase(choice)}, "
            f"above {plan.objective.limit_ms:g} ms in {missed} of the scenarios."
        )
    if choice.miss == "risk":
        chance = chance_phrase(choice.lost_per_year.mid)
        return f"it loses its data with a probability of {chance} per year."
    return f"{format_money(choice.month)} per month is above the budget."


def _units_phrase(choice: Choice, plan: StoragePlan) -> str:
    """Return why a volume counts more bytes than are transferred, within a clause; else empty."""
    is_more = choice.binding_load_per_s > plan.busiest_bytes_per_s * 1.001
    if choice.kind != "volume" or choice.binding_quantity != "throughput" or not is_more:
        return ""
    return " (small random requests count as whole units)"


def _cached_phrase(choice: Choice) -> str:
    """Return what a cache serves of the reads, within a clause; empty without one."""
    if choice.disk_share == 1:
        return ""
    return f" behind a cache that serves {format_share(1 - choice.disk_share)} of the reads"


def commits_phrase(forecast: CommitForecast, plan: StoragePlan) -> str:
    """Return commits a second, and percentiles of commits and transactions, with intervals."""
    rate, times, commit = forecast.commits_per_s, forecast.transaction_ms_p99, forecast.commit_ms
    of_commits = plan.objective is not None and plan.objective.operation == "commit"
    percentile = plan.objective.percentile if plan.objective and of_commits else "p99"
    return (
        f"{rate.mid:,.0f} per second ({rate.low:,.0f} to {rate.high:,.0f}), commit {percentile} "
        f"{_ms(commit.mid)} ms ({_ms(commit.low)} to {_ms(commit.high)}), transactions p99 "
        f"{_ms(times.mid)} ms ({_ms(times.low)} to {_ms(times.high)})"
    )


def choices_table(plan: StoragePlan) -> Table:
    """Return the candidates that fit, least regret first."""
    percentile = plan.objective.percentile if plan.objective else "p99"
    first = "By commits alone, least regret first" if plan.lacks else "Least regret first"
    return Table(
        id="table-choices",
        title=f"{first}; {format_plural(plan.dominated, 'dominated candidate')} left out",
        labels=1,
        headers=[
            "Candidate",
            "Month",
            "Fits",
            percentile,
            "Yearly loss",
            "Regret",
            "Binding limit",
        ],
        rows=[_row(each) for each in plan.choices[:CHOICES_MAX]],
    )


def _row(choice: Choice) -> list[str]:
    money = f"{choice.month.mid:,.2f} {choice.month.currency}"
    regret = _NOTHING if choice.regret is None else f"{choice.regret:,.0f}"
    return [
        choice.name,
        money,
        format_share(choice.fit_share),
        times_phrase(choice),
        chance_phrase(choice.lost_per_year.mid),
        f"{regret}{' overlaps' if choice.overlaps_best else ''}",
        f"{choice.binding} {choice.binding_quantity}, {choice.holds:.2g} x",
    ]


def _distinct_refusals(refused: list[Choice]) -> list[Choice]:
    """Return the first refused candidates with different reasons."""
    found = {
        (each.miss, each.binding if each.miss == "load" else ""): each for each in refused[::-1]
    }
    return [each for each in refused if each in found.values()][:REFUSALS_MAX]


def notes(plan: StoragePlan) -> list[str]:
    """Return how short the load is, reasons of refusal, and the result for twice the load."""
    found = separating_sentences(plan)
    if is_without_syncs(plan):
        found.append(
            "The objective of commits is judged as that of single writes: syncs, and clients that "
            "wait for one another, are not counted. Commits take longer. Record 500 log writes or "
            "more of the server's disk: `seatrial watch --record FILE`."
        )
    if plan.unjudged:
        found.append(plan.unjudged)
    if plan.load_s < DAY_S:
        found.append(
            f"The load of {format_duration_s(plan.load_s)} is repeated to fill a day: what other "
            "hours bring was not seen."
        )
    found += [
        f"Refused: {each.name}, {format_money(each.month)} per month: {refusal_reason(each, plan)}"
        + ("" if each.commits is None else f" Its commits: {commits_phrase(each.commits, plan)}.")
        for each in _distinct_refusals(plan.refused)
    ]
    if any(each.kind == "local" for each in plan.choices):
        found.append(
            "The throughput of local NVMe is not in the catalogue: a request counts once for every "
            "4 KiB. Measure it: `seatrial io DIR --block-size 64k`."
        )
    if any(each.kind == "own" for each in plan.choices):
        found.append("Own drives are priced without the server that holds them.")
    bare = [each for each in plan.choices if each.kind == "own" and not each.is_redundant]
    if bare:
        found.append(
            f"Without redundancy: {_names(bare)}. Any drive that fails takes all data with it; "
            "--loss-max 1% leaves such choices out."
        )
    if plan.choices and plan.choices[0].commits is not None:
        found.append(
            f"Commits of the recorded clients on {plan.choices[0].name}: "
            f"{commits_phrase(plan.choices[0].commits, plan)}."
        )
    if plan.twice_fit_share is not None and not plan.lacks:
        better = (
            f"; {plan.twice_name} would"
            if plan.twice_name and plan.twice_name != plan.choices[0].name
            else ""
        )
        found.append(
            f"At twice the load, {plan.choices[0].name} would fit in "
            f"{format_share(plan.twice_fit_share)} of the scenarios{better}."
        )
    return found


def is_without_syncs(plan: StoragePlan) -> bool:
    """Return whether an objective of commits was judged without a forecast of commits."""
    shown = (*plan.choices[:1], *plan.refused[:1])
    return (
        plan.objective is not None
        and plan.objective.operation == "commit"
        and all(each.commits is None for each in shown)
    )


def explained(plan: StoragePlan) -> Iterator[str]:
    """Yield every step to the first candidate, with the origin of each figure."""
    busiest = rate_phrase("IOPS", plan.busiest_per_s)
    through = rate_phrase("throughput", plan.busiest_bytes_per_s)
    yield f"Load: {plan.load}; busiest slot {busiest}, {through}"
    yield from plan.logged
    if plan.follows is not None:
        yield f"Share that reaches storage: {figure_phrase(plan.follows)}"
    yield f"Another day: {figure_phrase(plan.other_day, 'times that')}"
    yield f"Stored now: {_size_phrase(plan.capacity)}"
    yield f"Growth per year: {figure_phrase(plan.growth)}; judged after {years_phrase(plan.years)}"
    is_of_commits = plan.objective is not None and plan.objective.operation == "commit"
    if plan.objective is not None:
        yield f"Objective: {plan.objective.words}"
    yield (
        f"{format_count(plan.candidates)} candidates in {format_count(plan.worlds)} scenarios; a "
        f"month that misses costs {plan.miss_factor:g} times the cheapest that fits (assumed)"
    )
    for each in plan.choices[:1]:
        for item in each.bill:
            yield f"{item.what}: {format_money(item.money)} per month ({item.origin})"
        yield (
            f"{each.binding} has {rate_phrase(each.binding_quantity, each.binding_per_s)}: "
            f"{each.holds:.3g} times the load, all its buckets simulated over a day"
        )
        how = "commits in a closed loop" if is_of_commits and each.commits else "k servers"
        yield f"Times of requests: {each.reads_origin}; {how} simulated"
        if each.stalls:
            yield f"Stalls: {each.stalls}{_stalls_part(each, plan)}"
        if each.commits is not None:
            said = commits_phrase(each.commits, plan)
            yield f"Commits of the recorded clients, in a closed loop: {said}"
        yield f"Loss per year: {figure_phrase(each.lost_per_year)}"


def _stalls_part(choice: Choice, plan: StoragePlan) -> str:
    """Return what a percentile would be without stalls, as the end of a sentence."""
    if choice.response_ms_calm is None or choice.response_ms_mid is None:
        return ""
    percentile = plan.objective.percentile if plan.objective else "p99"
    return (
        f"; without them {percentile} would be {_ms(choice.response_ms_calm)} ms, not "
        f"{_ms(choice.response_ms_mid)}"
    )


def _size_phrase(figure: Figure) -> str:
    low, mid, high = (format_size(int(each)) for each in (figure.low, figure.mid, figure.high))
    return (
        f"{mid} ({figure.origin})" if low == high else f"{mid}, {low} to {high} ({figure.origin})"
    )
