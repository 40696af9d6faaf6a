"""``seatrial certify``: one page about a run: promised, delivered, price of the sustained rate."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from seatrial.cli.files import Output, output_option
from seatrial.cli.options import json_option, results_option, run_argument
from seatrial.errors import UsageError
from seatrial.report.terminal import table_text, wrapped

if TYPE_CHECKING:
    from seatrial.catalogue.store import Catalogue
    from seatrial.catalogue.units import Money
    from seatrial.trials.plan.analysis.caps import Cap

EPILOG = """\b
Examples:
  seatrial certify last --instance r7i.2xlarge --volume gp3:700GiB:10000:500
  seatrial certify last --volume gp3:700GiB -o certificate.html
  seatrial certify pg18 --price 492.32USD

\b
The page is made for print. docs/plan.md describes when a promise counts as kept.
"""

_AMOUNT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Z]{3})(?:/month)?")


@click.command("certify", epilog=EPILOG)
@run_argument
@click.option(
    "--instance", "instance_name", metavar="NAME", help="Instance type, whose limits apply too."
)
@click.option(
    "--volume", "volume_spec", metavar="VOLUME", help="Volume, such as gp3:700GiB:10000:500."
)
@click.option("--price", metavar="MONEY", help="Price per month, instead of the catalogue's.")
@click.option("--region", default="", help="Price region; by default the only known one.")
@output_option("-o", "--output", about="Also write the certificate as an HTML page.")
@results_option
@json_option
def command(
    *,
    run: str,
    instance_name: str | None,
    volume_spec: str | None,
    price: str | None,
    region: str,
    output: Output,
    results: Path,
    as_json: bool,
) -> int:
    """Certify the rates of RUN against the promised ones, and price a million requests.

    Raises:
        ResultsFileError: when the results file cannot be read.
        UsageError: when there is no such run, instance, volume or price.
    """
    from seatrial.catalogue.store import catalogue  # noqa: PLC0415 - not for --help
    from seatrial.cli.stored_runs import stored_summary  # noqa: PLC0415 - likewise
    from seatrial.trials.plan.analysis.certificate import certificate_of  # noqa: PLC0415
    from seatrial.trials.plan.documents import CertificateDocument  # noqa: PLC0415 - likewise
    from seatrial.trials.plan.report import certificate_text  # noqa: PLC0415 - likewise

    facts = catalogue()
    summary = stored_summary(results, run)
    promises, month, origin, unpriced = _promised(instance_name, volume_spec, region, facts)
    if price:
        month, origin, unpriced = _typed(price), "typed", []
    found = certificate_of(summary, promises, month, origin)
    verdict, notes = certificate_text.verdict_line(found), certificate_text.notes(found)
    notes += unpriced
    if output.is_named:
        from seatrial.trials.plan.report.certificate_page import render  # noqa: PLC0415

        page = render(found, summary, notes)
        output.write(page, otherwise=f"seatrial certify {run} --output FILE")
    if as_json:
        document = CertificateDocument(verdict=verdict, notes=notes, certificate=found)
        click.echo(document.as_text(), nl=False)
        return 0
    click.echo(wrapped(verdict))
    click.echo()
    if found.promises:
        click.echo(table_text(certificate_text.promises_table(found)))
    if found.sustained:
        click.echo(table_text(certificate_text.sustained_table(found)))
    for each in notes:
        click.echo(wrapped(each, " - "))
    return 0


def _promised(
    instance_name: str | None, volume_spec: str | None, region: str, facts: Catalogue
) -> tuple[list[Cap], Money | None, str, list[str]]:
    """Return the promises for rented storage, and its price with its origin, or notes on it."""
    from seatrial.catalogue.facts import Instance  # noqa: PLC0415 - not for --help
    from seatrial.catalogue.store import SeveralRegionsError  # noqa: PLC0415 - likewise
    from seatrial.catalogue.volumes import (  # noqa: PLC0415 - likewise
        NoPriceError,
        instance_bill,
        monthly_bill,
        parse_volume,
        total_of,
    )
    from seatrial.trials.plan.analysis.caps import (  # noqa: PLC0415 - likewise
        caps_of_instance,
        caps_of_volume,
        lowest_of_each,
    )

    provisioned = parse_volume(volume_spec, facts) if volume_spec else None
    instance = facts.find("instances", instance_name) if instance_name else None
    promises = caps_of_volume(provisioned, facts) if provisioned else []
    if isinstance(instance, Instance):
        promises += caps_of_instance(instance, facts)
    lowest = lowest_of_each(promises)
    try:
        lines = monthly_bill(provisioned, facts, region) if provisioned else []
        if isinstance(instance, Instance):
            lines.append(instance_bill(instance, facts, region))
    except SeveralRegionsError as error:
        return lowest, None, "", [f"The price is left out. {error}"]
    except NoPriceError:
        lines = []
    if not lines:
        return lowest, None, "", []
    origins = dict.fromkeys(each.origin for each in lines)
    return lowest, total_of(lines), "; ".join(origins), []


def _typed(price: str) -> Money:
    from seatrial.catalogue.units import Money  # noqa: PLC0415 - not for --help

    found = _AMOUNT.fullmatch(price.strip())
    if not found:
        raise UsageError(
            seen=f"{price!r} is not a price",
            cause="A price is an amount per month, with its currency",
            next_step="For example: --price 492.32USD",
        )
    return Money.of(float(found[1]), found[2])
