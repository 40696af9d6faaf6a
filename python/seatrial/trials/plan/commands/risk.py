"""``seatrial risk``: the risk of losing an array, and the life of its drives."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from seatrial.cli.options import FiniteRange, json_option, results_option
from seatrial.errors import UsageError
from seatrial.report.terminal import table_text, wrapped
from seatrial.study.units import parse_size_bytes
from seatrial.units import DAY_S

if TYPE_CHECKING:
    from seatrial.catalogue.store import Catalogue
    from seatrial.trials.plan.analysis.array import Array
    from seatrial.trials.plan.analysis.figure import Figure
    from seatrial.trials.plan.analysis.risk import FailureRate, Risk
    from seatrial.trials.plan.analysis.wear import Wear

EPILOG = """\b
Examples:
  seatrial risk --drives 8 --model "st8000nm0055" --level raid6 --spare 1
  seatrial risk --drives 5 --capacity 32GB --level raid5 --spare 1 --legs 2 --rebuild-hours 0.25
  seatrial risk --drives 8 --capacity 8TB --level raid5 --failures 2 --drive-years 160
  seatrial risk --drives 4 --capacity 1.92TB --level raid10 --written 1.7TB --endurance 3504TB
  seatrial risk --drives 4 --capacity 4TB --level raid5 --rebuild last --on-unreadable hardware

\b
A figure may be an interval, such as --rebuild-hours 10..20, with 5 % of the values below and 5 %
above. docs/plan.md describes what is simulated and what is assumed where nothing is given.
"""

_DECIMAL: Final = re.compile(r"([0-9.]+)\s*([kMGTP]?B)")
_SCALES: Final = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15}
_ASSUMED: Final = "assumed"
_HOUR_S: Final = 3600.0


@click.command("risk", epilog=EPILOG)
@click.option(
    "--drives", type=click.IntRange(1, 1000), required=True, help="Active drives in a leg."
)
@click.option(
    "--level",
    metavar="LEVEL",
    type=click.Choice(["raid0", "raid1", "raid10", "raid5", "raid6"]),
    required=True,
    help="Level of each leg: raid0, raid1, raid10, raid5 or raid6.",
)
@click.option(
    "--legs", type=click.IntRange(1, 100_000), default=1, help="Number of legs, which are striped."
)
@click.option(
    "--spare", "spares", type=click.IntRange(0, 100), default=0, help="Number of spares in a leg."
)
@click.option("--model", default="", help="Drive model, for field failure rates.")
@click.option("--capacity", metavar="SIZE", help="Capacity of a drive, decimal, such as 8TB.")
@click.option("--afr", metavar="PERCENT", help="Annual failure rate, instead of that of --model.")
@click.option("--failures", type=click.IntRange(min=0), help="Number of observed failures.")
@click.option("--drive-years", type=float, help="Total years of service of all drives.")
@click.option(
    "--years",
    type=FiniteRange(min=0.01, max=50),
    default=5.0,
    show_default=True,
    help="Years for which the risk is estimated.",
)
@click.option("--rebuild", metavar="RUN", help="Layout run with measured rebuilds.")
@click.option("--rebuild-hours", metavar="HOURS", help="Duration of a rebuild, instead of a run.")
@click.option("--replace-hours", metavar="HOURS", help="Time until a failed drive is replaced.")
@click.option("--detect-hours", metavar="HOURS", help="Time until a spare takes over.")
@click.option("--uber", metavar="PER_BIT", help="Unreadable bits per bit read.")
@click.option(
    "--on-unreadable",
    metavar="RULE",
    type=click.Choice(["md", "btrfs", "zfs", "hardware"]),
    default="md",
    show_default=True,
    help="What an unreadable sector costs, as with md, btrfs, zfs, or hardware (the array).",
)
@click.option("--common-cause", metavar="SHARE", help="Share of failures with a common cause.")
@click.option(
    "--smart", "smart", metavar="DIR|DEVICE", help="Drives whose wear is read from SMART."
)
@click.option(
    "--written", metavar="SIZE", help="Bytes written to the array per day, such as 1.7TB."
)
@click.option("--load", "load", metavar="RUN|RECORDING", help="Run or recording of the writes.")
@click.option("--endurance", metavar="SIZE", help="Rated write endurance of a drive (TBW).")
@click.option("--waf", metavar="FACTOR", help="Write amplification of the drives by this load.")
@click.option(
    "--rated-waf",
    metavar="FACTOR",
    help="Write amplification in the test behind the rated endurance (TBW).",
)
@results_option
@json_option
def command(
    *,
    drives: int,
    level: str,
    legs: int,
    spares: int,
    model: str,
    capacity: str | None,
    results: Path,
    years: float,
    as_json: bool,
    on_unreadable: str,
    **options: str | float | None,
) -> int:
    """Estimate the risk of an array from drive failures, common causes and unreadable sectors.

    Every probability has an interval over the unknowns, first of all the failure rate.

    Raises:
        UsageError: when the array cannot be, or a figure is invalid.
    """
    from seatrial.catalogue.store import catalogue  # noqa: PLC0415 - not for --help
    from seatrial.trials.plan.analysis import risk as simulation  # noqa: PLC0415 - likewise
    from seatrial.trials.plan.analysis.array import Array, checked  # noqa: PLC0415 - likewise

    facts = catalogue()
    drive_bytes = _drive_bytes(capacity, model, facts)
    array = checked(
        Array(level=level, drives=drives, legs=legs, spares=spares, drive_bytes=drive_bytes)
    )
    failures = _failures(options, model, facts)
    flash = "SSD" in model.upper() or "NVME" in model.upper() or _is_flash(model, facts)
    assumed = simulation.RiskAssumptions(
        failures=failures,
        rebuild_h=_rebuild_h(options, drive_bytes, results),
        replace_h=_figure(options, "replace_hours", simulation.REPLACE_H),
        detect_h=_figure(options, "detect_hours", simulation.DETECT_H),
        unreadable_per_bit=_figure(
            options, "uber", simulation.FLASH_UBER if flash else simulation.HARD_DISK_UBER
        ),
        common_share=_common_share(options),
        on_unreadable=on_unreadable,
        years=years,
    )
    risk = simulation.risk_of(array, assumed)
    wear = _wear(options, array, model, facts, results)
    _show(risk, wear, as_json=as_json)
    return 0


def _common_share(options: dict[str, str | float | None]) -> Figure:
    from seatrial.trials.plan.analysis.figure import parse_share  # noqa: PLC0415 - not for --help
    from seatrial.trials.plan.analysis.risk import COMMON_SHARE  # noqa: PLC0415 - likewise

    text = options.get("common_cause")
    return parse_share(str(text), "--common-cause") if text else COMMON_SHARE


def _figure(options: dict[str, str | float | None], name: str, usual: Figure) -> Figure:
    from seatrial.trials.plan.analysis.figure import parse_figure  # noqa: PLC0415 - not for --help

    text = options.get(name)
    return parse_figure(str(text), f"--{name.replace('_', '-')}") if text else usual


def parse_decimal_bytes(text: str, what: str) -> float:
    """Return a size as drives are sold, such as ``8TB``.

    Raises:
        UsageError: when it is invalid.
    """
    found = _DECIMAL.fullmatch(text.strip())
    try:
        size_bytes = float(found[1]) * _SCALES[found[2]] if found else float(parse_size_bytes(text))
    except ValueError:
        size_bytes = 0.0
    if not 0 < size_bytes < 1e18:
        raise UsageError(
            seen=f"{text!r} is not a valid {what}",
            cause="A size is a number and a unit",
            next_step="For example: 8TB (powers of 1000) or 8TiB (powers of 1024)",
        )
    return size_bytes


def _drive_bytes(capacity: str | None, model: str, facts: Catalogue) -> float:
    if capacity:
        return parse_decimal_bytes(capacity, "capacity")
    words = model.lower().split()
    sized = [(each.key, each.capacity_gb) for each in facts.failures.values()]
    sized += [(each.key, each.capacity_gb) for each in facts.drives.values()]
    known = [size for key, size in sized if words and size and all(w in key.lower() for w in words)]
    if not known:
        raise UsageError(
            seen="The size of a drive is unknown",
            cause="No --capacity was given, and the catalogue has none for that --model",
            next_step="Add it, such as --capacity 8TB",
        )
    return known[0] * 1e9


def _is_flash(model: str, facts: Catalogue) -> bool:
    words = model.lower().split()
    return any(
        "hdd" not in each.class_.lower()
        for each in facts.drives.values()
        if words and all(word in each.key.lower() for word in words)
    )


def _failures(options: dict[str, str | float | None], model: str, facts: Catalogue) -> FailureRate:
    """Return the failure rate: typed, counted by the user, or of the catalogue."""
    from seatrial.trials.plan.analysis.figure import parse_figure  # noqa: PLC0415 - likewise
    from seatrial.trials.plan.analysis.risk import (  # noqa: PLC0415 - likewise
        FailureRate,
        rate_of_model,
    )

    count, years = options.get("failures"), options.get("drive_years")
    if (count is None) != (years is None):
        raise UsageError(
            seen="A count of failures needs both --failures and --drive-years",
            cause="Two failures in 10 drive-years are not the same rate as two in 1,000",
            next_step="For example: --failures 2 --drive-years 160",
        )
    if count is not None and years is not None:
        if not 0 < float(years) < 1e9:
            raise UsageError(
                seen=f"--drive-years {years} is not above 0",
                cause="It is the time in service of all drives together",
                next_step="20 drives for two years are --drive-years 40",
            )
        return FailureRate(
            failures=int(count),
            drive_years=float(years),
            origin=f"typed, {int(count)} in {float(years):g} drive-years",
        )
    if afr := options.get("afr"):
        # The option is in percent with and without the sign.
        percent = str(afr).replace("%", "")
        figure = parse_figure(percent, "--afr").times(0.01)
        return FailureRate(typed=figure, origin=f"typed, {percent} in a hundred drive-years")
    rows = list(facts.failures.values())
    as_of = rows[0].origin(facts.today) if rows else _ASSUMED
    return rate_of_model(model, rows, as_of)


def _rebuild_h(options: dict[str, str | float | None], drive_bytes: float, results: Path) -> Figure:
    """Return how long a rebuild takes: typed, by the rate that a run measured, or assumed."""
    from seatrial.cli.sources import load_source  # noqa: PLC0415 - not for --help
    from seatrial.findings.summary import summarise  # noqa: PLC0415 - likewise
    from seatrial.trials.layouts.analysis.model import layouts_of  # noqa: PLC0415 - likewise
    from seatrial.trials.plan.analysis.figure import Figure, parse_figure  # noqa: PLC0415
    from seatrial.trials.plan.analysis.risk import assumed_rebuild_h  # noqa: PLC0415 - likewise

    if options.get("rebuild_hours"):
        return parse_figure(str(options["rebuild_hours"]), "--rebuild-hours")
    reference = options.get("rebuild")
    if not reference:
        return assumed_rebuild_h(drive_bytes)
    source = load_source(str(reference), results)
    layouts = layouts_of(summarise(source.run, source.samples))
    rates = [each.rebuild_rate for each in layouts.recoveries] if layouts else []
    known = [each for each in rates if each is not None and each.value > 0]
    if not known:
        raise UsageError(
            seen=f"The run {reference} has no rebuild whose rate is known",
            cause="Only a study that fails a drive of an array measures one",
            next_step="Measure one: `seatrial study raid-failure --plan`",
        )
    slowest = min(known, key=lambda each: each.value)
    hours = drive_bytes / slowest.value / _HOUR_S
    low = drive_bytes / slowest.high / _HOUR_S if slowest.high else hours
    high = drive_bytes / slowest.low / _HOUR_S if slowest.low else hours * 2
    return Figure(low=low, mid=hours, high=high, origin=f"measured, run {source.run.id}")


def _wear(
    options: dict[str, str | float | None],
    array: Array,
    model: str,
    facts: Catalogue,
    results: Path,
) -> Wear | None:
    """Return the life of the drives; None if their writes are unknown."""
    from seatrial.trials.plan.analysis.figure import exact  # noqa: PLC0415
    from seatrial.trials.plan.analysis.wear import endurance_of, wear_of  # noqa: PLC0415

    written = _written_per_day(options, results)
    if written is None:
        _check_unused(options)
        return None
    if written.mid <= 0:
        raise UsageError(
            seen=f"Nothing is written ({written.origin}), so the drives do not wear",
            cause="The lifetime of drives follows from what is written to them",
            next_step="Give a load that writes, or leave --load out",
        )
    endurance = None
    if options.get("endurance"):
        typed = parse_decimal_bytes(str(options["endurance"]), "endurance")
        endurance = exact(typed, "typed")
    words = model.lower().split()
    for each in facts.drives.values():
        if endurance is None and words and all(word in each.key.lower() for word in words):
            endurance = endurance_of(each, array.drive_bytes, each.origin(facts.today))
    if endurance is None:
        raise UsageError(
            seen="The lifetime of the drives is unknown",
            cause="Their endurance is neither given nor in the catalogue",
            next_step="Add the TBW of the data sheet: --endurance 3504TB",
        )
    used = _used_share(str(options["smart"])) if options.get("smart") else 0.0
    return wear_of(array, written, endurance, over_rated=_over_rated(options), used_share=used)


def _check_unused(options: dict[str, str | float | None]) -> None:
    """Check that no option describes wear without writes; raises UsageError."""
    for name in ("endurance", "smart", "waf", "rated_waf"):
        if options.get(name):
            raise UsageError(
                seen=f"--{name.replace('_', '-')} is of no use here",
                cause="The lifetime of drives follows from what is written to them",
                next_step="Add --written 1.7TB (per day) or --load RUN",
            )


def _over_rated(options: dict[str, str | float | None]) -> Figure:
    """Return the write amplification over that of the drives' rating."""
    from seatrial.trials.plan.analysis import wear  # noqa: PLC0415 - not for --help
    from seatrial.trials.plan.analysis.figure import parse_figure  # noqa: PLC0415 - likewise

    typed = {
        name: parse_figure(str(options[name]), f"--{name.replace('_', '-')}")
        for name in ("waf", "rated_waf")
        if options.get(name)
    }
    if not typed:
        return wear.OVER_RATED
    try:
        return wear.amplification_over(typed.get("waf", wear.WAF), typed.get("rated_waf", wear.WAF))
    except ValueError:
        raise UsageError(
            seen="A write amplification of 0 was given",
            cause="Writing to a drive also writes to its flash",
            next_step="For example: --waf 2 or --waf 1..4",
        ) from None


def _written_per_day(options: dict[str, str | float | None], results: Path) -> Figure | None:
    from seatrial.trials.plan.analysis.figure import exact  # noqa: PLC0415 - not for --help
    from seatrial.trials.plan.commands.load_source import demands_of  # noqa: PLC0415 - likewise

    if options.get("written"):
        return exact(parse_decimal_bytes(str(options["written"]), "amount"), "typed")
    if options.get("load"):
        demands = demands_of(str(options["load"]), results)
        most = max(demands, key=lambda each: float(each.write_bytes_per_s.mean()))
        return exact(float(most.write_bytes_per_s.mean()) * DAY_S, most.origin)
    return None


def _used_share(path: str) -> float:
    """Return the largest used share of endurance of the drives below a path, by SMART."""
    from seatrial.cli.targets import existing  # noqa: PLC0415 - not for --help
    from seatrial.machine.fingerprint import take_fingerprint  # noqa: PLC0415 - likewise

    health = take_fingerprint(existing(path).path).health
    used = [
        float(each.smart["used_percent"]) / 100
        for each in health.values()
        if each.smart and "used_percent" in each.smart
    ]
    if not used:
        reasons = [reason for each in health.values() for reason in each.not_readable]
        raise UsageError(
            seen=f"No drive below {path} reports how much of its endurance is used",
            cause="; ".join(dict.fromkeys(reasons)) or "They do not report it",
            next_step="Run it as root with smartmontools installed, or leave --smart out",
        )
    return min(max(used), 1.0)


def _show(risk: Risk, wear: Wear | None, *, as_json: bool) -> None:
    from seatrial.trials.plan.documents import RiskDocument  # noqa: PLC0415 - likewise
    from seatrial.trials.plan.report import risk_text  # noqa: PLC0415 - likewise

    verdict = risk_text.verdict_line(risk)
    lines = risk_text.assumed_lines(risk.assumed, risk.array)
    if as_json:
        document = RiskDocument(verdict=verdict, assumed=lines, risk=risk, wear=wear)
        click.echo(document.as_text(), nl=False)
        return
    click.echo(wrapped(verdict))
    if wear is not None:
        click.echo(wrapped(risk_text.wear_line(wear)))
    click.echo()
    click.echo(table_text(risk_text.risk_table(risk)))
    click.echo("Inputs and assumptions:")
    for each in lines:
        click.echo(wrapped(each, " - "))
