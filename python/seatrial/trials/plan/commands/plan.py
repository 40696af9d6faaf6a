"""``seatrial plan``: storage to buy or rent for a load, with its price and risk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NotRequired, TypedDict

import click
import msgspec

from seatrial.cli.files import Output, is_parquet, output_option
from seatrial.cli.options import FiniteRange, json_option, results_option
from seatrial.errors import UsageError
from seatrial.report.terminal import table_text, wrapped
from seatrial.study.units import parse_size_bytes

if TYPE_CHECKING:
    from seatrial.catalogue.store import Catalogue
    from seatrial.trials.plan.analysis.answer import StoragePlan
    from seatrial.trials.plan.analysis.array import Array
    from seatrial.trials.plan.analysis.candidates import (
        Candidate,
        OwnDrive,
        RequestTimes,
        SearchBounds,
    )
    from seatrial.trials.plan.analysis.demand import Demand
    from seatrial.trials.plan.analysis.figure import Figure
    from seatrial.trials.plan.analysis.need import StorageNeed

EPILOG = """\b
Examples:
  seatrial plan day.rec --capacity 500GiB --objective commit.p99_ms=5 --growth 40%/y --years 3
  seatrial plan last --capacity 200GiB --budget 800/month --region us-east-1
  seatrial plan reads=6000,writes=2000,size=8KiB --capacity 500GiB --objective read.p99_ms=10
  seatrial plan prod.log --io reads=900,writes=100,size=8KiB --capacity 200GiB
  seatrial plan day.rec --capacity 2TiB --drive "DC600M=180USD" --loss-max 0.1%
  seatrial plan day.rec --capacity 500GiB --ram-price 3.50USD --ssd-price 0.08USD
  seatrial plan day.rec --capacity 500GiB --explain --study proof.toml

\b
A figure may be an interval, such as --growth 20%..60% or --capacity 400GiB..600GiB. docs/plan.md
describes scenarios, regret and proof; docs/catalogue.md where limits and prices are from.
"""

_MONTHS_PER_YEAR: Final = 12
_USUAL_GROWTH: Final = "0..0.2..0.6"
_GROWTH_MAX: Final = 10.0
"""More is a percentage without its sign."""


class PlanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command, as typed; ``seatrial plan --help`` describes each."""

    capacity: str
    growth: str | None
    years: float
    objective: str | None
    commits: float | None
    io: str | None
    other_day: str | None
    budget: str | None
    loss_max: str | None
    provider: str
    region: str
    currency: str
    instances: tuple[str, ...]
    volumes: tuple[str, ...]
    vcpu_min: int
    memory_min: str | None
    drives: tuple[str, ...]
    drive_like: str | None
    kwh: str | None
    ram_price: str | None
    ssd_price: str | None
    measured: tuple[str, ...]
    explain: bool
    miss_factor: float
    results: Path


class LoadFields(TypedDict):
    """The fields of a need that describe its load."""

    demand: Demand
    logged: tuple[str, ...]
    unjudged: NotRequired[str]
    follows: NotRequired[Figure]
    lacks: NotRequired[str]


@click.command("plan", epilog=EPILOG)
@click.argument("need", metavar="NEED")
@click.option(
    "--capacity",
    required=True,
    metavar="SIZE",
    help="Data stored now: 500GiB, 400GiB..600GiB.",
)
@click.option(
    "--growth",
    metavar="SHARE",
    help="Growth of load and size: 40%/y; default 0..20%..60%.",
)
@click.option(
    "--years",
    type=FiniteRange(min=0, max=10),
    default=1.0,
    show_default=True,
    metavar="N",
    help="Load and size after N years.",
)
@click.option(
    "--objective", metavar="NAME=MS", help="Percentile to meet: commit.p99_ms=5, read.p95_ms=2."
)
@click.option(
    "--commits",
    type=FiniteRange(min=0, min_open=True),
    metavar="N",
    help="Commits per second in a recording.",
)
@click.option(
    "--io",
    metavar="FIGURES",
    help="Mean block I/O during a log of SQL.",
)
@click.option(
    "--other-day",
    metavar="TIMES",
    help="Load on other days, as a multiple; default 0.8..1.6.",
)
@click.option("--budget", metavar="MONEY", help="Exclude what costs more per month: 800EUR.")
@click.option("--loss-max", metavar="SHARE", help="Exclude a higher yearly risk of loss: 0.1%.")
@click.option(
    "--provider",
    metavar="NAME",
    default="aws",
    show_default=True,
    help="Provider; aws has prices.",
)
@click.option(
    "--region",
    metavar="NAME",
    default="",
    help="Price region; the only known one by default.",
)
@click.option(
    "--currency",
    metavar="CODE",
    default="USD",
    show_default=True,
    help="Currency in which prices are compared.",
)
@click.option(
    "--instance",
    "instances",
    multiple=True,
    metavar="NAME",
    help="Only this type of instance; may be repeated.",
)
@click.option(
    "--volume",
    "volumes",
    multiple=True,
    metavar="NAME",
    help="Only this kind, such as gp3; may be repeated.",
)
@click.option(
    "--vcpu-min",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Processors that the database needs.",
)
@click.option("--memory-min", metavar="SIZE", help="Memory that the database needs: 32GiB.")
@click.option(
    "--drive",
    "drives",
    multiple=True,
    metavar="MODEL=PRICE",
    help="Include your own drives; price of each.",
)
@click.option("--drive-like", hidden=True)
@click.option("--kwh", metavar="PRICE", help="Price per kWh, for own drives: 0.30USD.")
@click.option(
    "--ram-price",
    metavar="PRICE",
    help="Include memory at a price per GiB: 3.50USD.",
)
@click.option("--ssd-price", metavar="PRICE", help="Include an SSD cache: 0.08USD, 120EUR/TiB/5y.")
@click.option(
    "--measured",
    multiple=True,
    metavar="KIND=RUN",
    help="Run with the latencies of a kind or drive: gp3=last.",
)
@click.option("--explain", is_flag=True, help="Show every step and the origin of each figure.")
@click.option(
    "--miss-factor",
    type=FiniteRange(min=0),
    default=3.0,
    show_default=True,
    metavar="N",
    help="Cost of a miss in months of rent.",
)
@output_option("--study", about="Also write a study that tests the first candidate.", is_all=True)
@output_option("-o", "--output", about="Also write the report, with charts, as an HTML page.")
@results_option
@json_option
def command(
    *,
    need: str,
    output: Output,
    study: Output,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - an option each
) -> int:
    """Find storage for NEED: a run, a recording, a log of SQL, or figures such as reads=6000.

    Candidates are evaluated in 10,000 scenarios, the same for each: whether their limits suffice,
    credits included, how fast they are, their price and risk. Candidates whose
    results overlap are not ranked.

    Raises:
        UsageError: when a figure is invalid, or nothing can be judged.
    """
    from seatrial.catalogue.store import catalogue  # noqa: PLC0415 - not for --help
    from seatrial.trials.plan.analysis.answer import plan_of  # noqa: PLC0415 - likewise

    plan_options = PlanOptions(**options)
    facts = catalogue()
    storage_need = _need(need, plan_options)
    candidates = _candidates(storage_need, plan_options, facts)
    candidates += _cached_candidates(need, storage_need, candidates, plan_options, facts)
    if not candidates:
        raise _no_candidate(plan_options, facts)
    plan = plan_of(
        candidates,
        storage_need,
        budget=_money(plan_options.budget, plan_options.currency) if plan_options.budget else None,
        lost_max=_share(plan_options.loss_max, "--loss-max"),
        miss_factor=plan_options.miss_factor,
    )
    _write_files(plan, storage_need, need, output, study)
    _show(plan, study, explain=plan_options.explain, as_json=as_json)
    return 0


def _no_candidate(plan_options: PlanOptions, facts: Catalogue) -> UsageError:
    """Return the error of a search without a result, with what the catalogue lacks."""
    provider, region = plan_options.provider, plan_options.region
    providers = sorted({each.provider for each in facts.volumes.values()})
    prices = [each for each in facts.prices.values() if each.provider == provider]
    regions = sorted({each.region for each in prices})
    next_step = "See prices: `seatrial catalogue show prices`, and set your own"
    if provider not in providers:
        cause = f"The catalogue has no provider {provider!r}; it has {', '.join(providers)}"
        next_step = f"Name one of them: --provider {providers[0]}"
    elif region and not {region, "any"} & set(regions):
        cause = f"The catalogue has no prices of {provider} in {region}; it has those of "
        cause += " and ".join(regions) if regions else "no region"
    elif not any(each.component == "instance" for each in prices):
        cause = f"The catalogue has no price of an instance of {provider}, only of volumes"
        next_step = (
            f"Set one: `seatrial catalogue set prices/{provider}/INSTANCE/instance/any mid=700 "
            "currency=USD unit=month`"
        )
    else:
        cause = "No instance and volume with a price are within the options of the search"
        next_step = "Leave --vcpu-min, --memory-min, --instance or --volume out"
    return UsageError(
        seen="There is no candidate with a known price", cause=cause, next_step=next_step
    )


def _need(reference: str, plan_options: PlanOptions) -> StorageNeed:
    """Return the requirements of storage.

    Raises:
        UsageError: when commits are given for what shows none, or a figure is invalid.
    """
    from seatrial.trials.plan.analysis.commits import commit_path_of  # noqa: PLC0415 - likewise
    from seatrial.trials.plan.analysis.figure import (  # noqa: PLC0415 - likewise
        parse_figure,
        parse_share,
    )
    from seatrial.trials.plan.analysis.need import (  # noqa: PLC0415 - likewise
        OTHER_DAY,
        StorageNeed,
        busiest_gaps,
        parse_objective,
    )
    from seatrial.trials.watch.recording import read  # noqa: PLC0415 - likewise

    gaps = commits = None
    about = _load(reference, plan_options)
    if not about["logged"] and is_parquet(Path(reference)):
        recorded = read(Path(reference))
        gaps = busiest_gaps(recorded.arrived_ns, about["demand"].slot_s)
        commits = commit_path_of(recorded, plan_options.commits)
    if plan_options.commits and commits is None:
        raise UsageError(
            seen=f"{reference!r} does not show how its server commits",
            cause="This needs a recording with 500 consecutive log writes that their processes "
            "wait for",
            next_step="Record the server's disk: `seatrial watch --record FILE`, or leave "
            "--commits out",
        )
    growth = plan_options.growth
    other = plan_options.other_day
    other_day = parse_figure(other, "--other-day") if other else OTHER_DAY
    if other_day.low == 0:
        raise UsageError(
            seen=f"--other-day {other} is a day without load",
            cause="It is a multiple of the load, and a day without any fits everywhere",
            next_step="For example: --other-day 0.8..1.6",
        )
    return StorageNeed(
        **about,
        other_day=other_day,
        capacity=_capacity(plan_options.capacity),
        growth=parse_share(
            (growth or _USUAL_GROWTH).removesuffix("/y").removesuffix("/year"),
            "--growth",
            "typed" if growth else "assumed",
            below=_GROWTH_MAX,
        ),
        years=plan_options.years,
        objective=parse_objective(plan_options.objective) if plan_options.objective else None,
        gaps=gaps,
        commits=commits,
    )


def _load(reference: str, plan_options: PlanOptions) -> LoadFields:
    """Return the fields that describe the load.

    Raises:
        UsageError: when block I/O is typed for a source that has its own, or a log alone cannot
            judge the objective.
    """
    from seatrial.trials.plan.analysis import log_load  # noqa: PLC0415 - likewise
    from seatrial.trials.plan.commands.load_source import (  # noqa: PLC0415 - likewise
        demands_of,
        log_load_of,
        most_bytes,
        typed_demand,
    )

    typed, objective = plan_options.io, plan_options.objective
    load = log_load_of(reference)
    if load is None and typed:
        raise UsageError(
            seen=f"{reference!r} is not a log of SQL, and --io applies only to such a log",
            cause="A recording, a run and figures already contain block I/O",
            next_step="Leave --io out",
        )
    if load is None:
        demand, unjudged = most_bytes(demands_of(reference, plan_options.results))
        return {"demand": demand, "unjudged": unjudged, "logged": ()}
    words = tuple(load.words())
    if typed:
        demand = log_load.demand_following(typed_demand(typed), load)
        return {"demand": demand, "follows": log_load.FOLLOWS, "logged": words}
    if objective and not objective.startswith("commit."):
        raise UsageError(
            seen=f"{objective!r} cannot be judged from the log {reference}",
            cause="A log has no block I/O; it shows only commits",
            next_step="Use an objective of commits, such as commit.p99_ms=5; or give the means of "
            "its block I/O: --io reads=900,writes=100,size=8KiB",
        )
    demand, shared = log_load.commit_demand(load)
    return {"demand": demand, "follows": shared, "logged": words, "lacks": log_load.LACKS}


def _capacity(text: str) -> Figure:
    """Return the stored bytes, as a size or the two ends of an interval."""
    from seatrial.trials.plan.analysis.figure import Figure  # noqa: PLC0415 - likewise

    try:
        sizes = sorted(float(parse_size_bytes(each)) for each in text.split("..", 2))
    except ValueError as error:
        raise UsageError(
            seen=f"{text!r} is not a capacity: {error}",
            cause="A capacity is a size, or two or three sizes separated by two dots",
            next_step="For example: --capacity 500GiB or --capacity 400GiB..600GiB",
        ) from None
    mid = sizes[1] if len(sizes) == 3 else (sizes[0] * sizes[-1]) ** 0.5
    return Figure(low=sizes[0], mid=mid, high=sizes[-1], origin="typed")


def _memory_min_bytes(plan_options: PlanOptions) -> float:
    """Return the memory that the database needs.

    Raises:
        UsageError: when it is not a size, or an option would have no effect.
    """
    memory = plan_options.memory_min
    if plan_options.instances and (memory or plan_options.vcpu_min):
        raise UsageError(
            seen=f"{'--memory-min' if memory else '--vcpu-min'} and --instance exclude each other",
            cause="Instances that are named are not searched for",
            next_step="Leave one of them out",
        )
    for name in plan_options.volumes:
        if ":" in name:
            raise UsageError(
                seen=f"--volume {name} has a size",
                cause="Sizes and rates are searched for; --capacity is what is stored",
                next_step=f"Give the kind alone: --volume {name.partition(':')[0]}",
            )
    try:
        return float(parse_size_bytes(memory)) if memory else 0.0
    except ValueError as error:
        raise UsageError(
            seen=f"--memory-min {memory}: {error}",
            cause="The memory that the database needs is a size",
            next_step="For example: --memory-min 32GiB",
        ) from None


def _share(text: str | None, option: str) -> float | None:
    from seatrial.trials.plan.analysis.figure import parse_share  # noqa: PLC0415 - not for --help

    return parse_share(text, option).mid if text else None


def _money(text: str, currency: str) -> float:
    """Return an amount in the currency of the comparison.

    Raises:
        UsageError: when it is invalid, or of another currency.
    """
    import re  # noqa: PLC0415 - not for --help

    found = re.fullmatch(r"([0-9.]+)\s*([A-Z]{3})?(?:/month)?", text.strip())
    try:
        amount = float(found[1]) if found else -1.0
    except ValueError:
        amount = -1.0
    if amount < 0 or found is None:
        raise UsageError(
            seen=f"{text!r} is not an amount",
            cause="An amount is a number, with its currency if it differs from --currency",
            next_step="For example: 800 or 800USD/month",
        )
    if found[2] not in (None, currency):
        from seatrial.catalogue.store import catalogue  # noqa: PLC0415 - likewise
        from seatrial.catalogue.units import Money  # noqa: PLC0415 - likewise

        return catalogue().in_currency(Money.of(amount, found[2]), currency).mid
    return amount


def _candidates(need: StorageNeed, plan_options: PlanOptions, facts: Catalogue) -> list[Candidate]:
    from seatrial.trials.plan.analysis.candidates import (  # noqa: PLC0415 - likewise
        SearchBounds,
        rented,
    )

    growth = (1 + need.growth.mid) ** need.years * need.other_day.mid
    bounds = SearchBounds(
        iops=float(need.demand.requests_per_s.max()) * growth,
        mean_iops=float(need.demand.requests_per_s.mean()) * growth,
        write_bytes=need.demand.mean_write_bytes,
        bytes_per_s=float(need.demand.bytes_per_s.max()) * growth,
        capacity_bytes=need.capacity.mid * (1 + need.growth.mid) ** need.years,
        provider=plan_options.provider,
        region=plan_options.region,
        instances=plan_options.instances,
        volumes=plan_options.volumes,
        vcpu_min=plan_options.vcpu_min,
        memory_min_bytes=_memory_min_bytes(plan_options),
        currency=plan_options.currency,
    )
    measured = _measured_times(plan_options)
    found = rented(bounds, facts, measured)
    for text in plan_options.drives:
        found += _own_array_candidates(text, bounds, plan_options, facts, measured)
    _check_measured_kinds(measured, found)
    return found


def _cached_candidates(
    reference: str,
    need: StorageNeed,
    candidates: list[Candidate],
    plan_options: PlanOptions,
    facts: Catalogue,
) -> list[Candidate]:
    """Return the candidates with more memory or a cache device in front, if these have a price.

    Raises:
        UsageError: when the need is not a recording, or a price is invalid.
    """
    from seatrial.trials.cache.analysis.money import UnitPrice, parse_price  # noqa: PLC0415
    from seatrial.trials.watch.recording import read  # noqa: PLC0415 - likewise

    typed = {"ram": plan_options.ram_price, "ssd": plan_options.ssd_price}
    texts = {name: text for name, text in typed.items() if text}
    if not texts:
        return []
    if not is_parquet(Path(reference)):
        raise UsageError(
            seen=f"{reference!r} is not a recording, so the effect of a cache on it is unknown",
            cause="Caches are simulated with the requests of a recording",
            next_step="Record the load: `seatrial watch --record FILE`, or leave "
            f"--{next(iter(texts))}-price out",
        )
    prices = {}
    for name, text in texts.items():
        try:
            _, price = parse_price(f"{name}={text}", facts)
        except ValueError as error:
            raise UsageError(
                seen=f"--{name}-price: {error}",
                cause="A price is per GiB and month, or paid once and divided by the years of use",
                next_step=f"For example: --{name}-price 0.08USD or --{name}-price 120EUR/TiB/5y",
            ) from None
        money = facts.in_currency(price.money, plan_options.currency)
        prices[name] = UnitPrice(money=money, origin=price.origin)
    from seatrial.trials.plan.analysis.caching import caches_of, with_cache  # noqa: PLC0415

    caches = caches_of(read(Path(reference)), prices)
    return [found for cache in caches for found in with_cache(cache, candidates, need)]


def _measured_times(plan_options: PlanOptions) -> dict[str, RequestTimes]:
    """Return times of kinds of storage as runs measured them, such as ``gp3 read``.

    Raises:
        UsageError: when a run has neither reads nor writes, or measured several targets.
    """
    from seatrial.cli.sources import load_source  # noqa: PLC0415 - not for --help
    from seatrial.trials.plan.commands.measured_times import times_of_samples  # noqa: PLC0415

    if plan_options.drive_like:
        raise UsageError(
            seen="--drive-like is now called --measured",
            cause="It now covers rented volumes as well as your own drives",
            next_step='For example: --drive "DC600M=180USD" --measured DC600M=last',
        )
    measured: dict[str, RequestTimes] = {}
    for text in plan_options.measured:
        kind, _, reference = text.partition("=")
        source = load_source(reference or "last", plan_options.results)
        targets = sorted({each.cell.target for each in source.samples})
        found = times_of_samples(kind, source.run.id, source.samples)
        if not kind or not found or len(targets) != 1:
            raise UsageError(
                seen=f"The run {reference!r} measured {len(targets)} targets: {', '.join(targets)}"
                if len(targets) > 1
                else f"The run {reference!r} has no read or write latencies",
                cause="--measured takes what a run measured of one kind of storage",
                next_step="Run `seatrial io DIR --block-size 8k`, and add --measured gp3=last",
            )
        measured.update(found)
    return measured


def _check_measured_kinds(measured: dict[str, RequestTimes], found: list[Candidate]) -> None:
    """Check that measured times belong to a candidate.

    Raises:
        UsageError: when no candidate is of their kind.
    """
    used = {each.kind for candidate in found for each in (candidate.reads, candidate.writes)}
    kinds = {name.rpartition(" ")[0] for name in used}
    for name in measured:
        kind = name.rpartition(" ")[0]
        if kind not in kinds:
            raise UsageError(
                seen=f"--measured {kind}: no candidate is of this kind",
                cause="A kind is a volume such as gp3, or a drive as --drive names it",
                next_step='For example: --measured gp3=last, or --drive "DC600M=180USD" '
                "--measured DC600M=last",
            )


def _own_array_candidates(
    text: str,
    bounds: SearchBounds,
    plan_options: PlanOptions,
    facts: Catalogue,
    measured: dict[str, RequestTimes],
) -> list[Candidate]:
    """Return arrays of a drive that is typed with its price, such as ``DC600M=180USD``.

    Values that were not measured are from its data sheet.
    """
    from dataclasses import replace  # noqa: PLC0415 - not for --help

    from seatrial.catalogue.facts import Drive  # noqa: PLC0415 - not for --help
    from seatrial.catalogue.units import Money  # noqa: PLC0415 - likewise
    from seatrial.trials.plan.analysis.candidates import (  # noqa: PLC0415 - likewise
        arrays_of,
        own_arrays,
        own_drive,
    )

    name, _, price = text.partition("=")
    words = name.lower().split()
    sheets = [
        each
        for each in facts.table("drives").values()
        if isinstance(each, Drive) and words and all(word in each.key.lower() for word in words)
    ]
    if len(sheets) != 1 or not price:
        raise UsageError(
            seen=f"{text!r} matches {len(sheets)} drives of the catalogue"
            if price
            else f"{text!r} has no price",
            cause="A drive is given as its model in the catalogue and the price of one",
            next_step='See `seatrial catalogue show drives`; for example: --drive "DC600M=180USD"',
        )
    sheet = sheets[0]
    if not sheet.capacity_gb:
        raise UsageError(
            seen=f"The catalogue has no capacity for {sheet.key}",
            cause="Its row is for several sizes",
            next_step=f"Set it: `seatrial catalogue set drives/{sheet.key} capacity_gb=1920`",
        )
    currency = plan_options.currency
    drive = own_drive(
        sheet, sheet.capacity_gb * 1e9, Money.of(_money(price, currency), currency), facts
    )
    drive = replace(
        drive,
        reads=measured.get(f"{name} read", drive.reads),
        writes=measured.get(f"{name} write", drive.writes),
    )
    kwh = Money.of(_money(plan_options.kwh, currency), currency) if plan_options.kwh else None
    is_flash = "hdd" not in sheet.class_.lower()
    arrays = [
        (array, _lost_per_year(array, drive, facts, is_flash=is_flash))
        for array in arrays_of(bounds, drive)
    ]
    months = max(plan_options.years, 1.0) * _MONTHS_PER_YEAR
    return own_arrays(arrays, drive, months=months, kwh=kwh, write_bytes=bounds.write_bytes)


def _lost_per_year(array: Array, drive: OwnDrive, facts: Catalogue, *, is_flash: bool) -> Figure:
    """Return the probability of losing an array in a year, simulated (seatrial risk)."""
    from seatrial.trials.plan.analysis import risk  # noqa: PLC0415 - not for --help
    from seatrial.trials.plan.analysis.figure import Figure  # noqa: PLC0415 - likewise

    rows = list(facts.failures.values())
    assumed = risk.RiskAssumptions(
        failures=risk.rate_of_model(drive.name, rows, rows[0].origin(facts.today)),
        rebuild_h=risk.assumed_rebuild_h(array.drive_bytes),
        replace_h=risk.REPLACE_H,
        detect_h=risk.DETECT_H,
        unreadable_per_bit=risk.FLASH_UBER if is_flash else risk.HARD_DISK_UBER,
        common_share=risk.COMMON_SHARE,
        years=1.0,
    )
    lost = risk.risk_of(array, assumed, scenarios=200, lifetimes=50).lost
    mid = min(max(lost.mean, lost.low), lost.high)
    return Figure(low=lost.low, mid=mid, high=lost.high, origin="simulated, see `seatrial risk`")


def _write_files(
    plan: StoragePlan, need: StorageNeed, name: str, output: Output, study: Output
) -> None:
    from seatrial.trials.plan.report.proof import study_text  # noqa: PLC0415 - likewise

    if study.is_named:
        if not plan.choices:
            raise UsageError(
                seen="Nothing fits, so there is nothing to prove",
                cause="Every candidate is refused",
                next_step="See why: leave --study out",
            )
        if need.lacks:
            raise UsageError(
                seen="The log has no block I/O, so there is no rate to prove",
                cause="Only its commits are known",
                next_step="Give means over the log: --io reads=900,writes=100,size=8KiB",
            )
        requests = float(need.demand.requests_per_s.sum())
        share = float(need.demand.reads_per_s.sum()) / requests
        size = float(need.demand.bytes_per_s.sum()) / requests
        study.write(study_text(plan, share, size), otherwise="seatrial plan NEED --study FILE")
    if output.is_named:
        from seatrial.trials.plan.report.plan_page import render  # noqa: PLC0415 - likewise

        page = render(plan, name, str(study.path or ""))
        output.write(page, otherwise=f"seatrial plan {name} --output FILE")


def _show(plan: StoragePlan, study: Output, *, explain: bool, as_json: bool) -> None:
    from seatrial.trials.plan.documents import StoragePlanDocument  # noqa: PLC0415 - likewise
    from seatrial.trials.plan.report import plan_text  # noqa: PLC0415 - likewise
    from seatrial.trials.plan.report.proof import proof_sentence  # noqa: PLC0415 - likewise

    verdict = plan_text.verdict_line(plan)
    notes = plan_text.notes(plan)
    steps = [*plan_text.explained(plan)]
    if plan.choices and not plan.lacks:
        notes.append(proof_sentence(plan, str(study.path or "")))
    if as_json:
        document = StoragePlanDocument(verdict=verdict, notes=notes, steps=steps, plan=plan)
        click.echo(document.as_text(), nl=False)
        return
    click.echo(wrapped(verdict))
    if plan.choices:
        click.echo()
        click.echo(table_text(plan_text.choices_table(plan)))
    for each in notes:
        click.echo(wrapped(each, " - "))
    if explain:
        click.echo("Inputs and steps:")
        for each in steps:
            click.echo(wrapped(each, " - "))
