"""``seatrial caps``: the limits of storage, and performance that is paid for in vain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from seatrial.cli.files import Output, is_parquet, output_option
from seatrial.cli.options import json_option, results_option
from seatrial.errors import UsageError
from seatrial.report.terminal import table_text, wrapped
from seatrial.study.units import format_size

if TYPE_CHECKING:
    from seatrial.catalogue.facts import Instance
    from seatrial.catalogue.store import Catalogue
    from seatrial.catalogue.volumes import ProvisionedVolume
    from seatrial.trials.plan.analysis.caps import Cap, CapReport
    from seatrial.trials.plan.analysis.demand import Demand
    from seatrial.trials.plan.analysis.rented_machine import RentedMachine

EPILOG = """\b
Examples:
  seatrial caps --instance r7i.2xlarge --volume gp3:700GiB:10000:500
  seatrial caps last --volume gp3:700GiB:10000:500
  seatrial caps day.rec --instance r7i.2xlarge --volume gp2:500GiB
  seatrial caps reads=9000,writes=1500,size=8KiB --instance m7g.large --volume gp3:1TiB:12000:400
  seatrial caps /mnt/data

\b
A volume is NAME:SIZE[:IOPS[:THROUGHPUT]], throughput in the unit of its provider. docs/plan.md
describes what is simulated, docs/catalogue.md where limits are from.
"""


@click.command("caps", epilog=EPILOG)
@click.argument("what", default="", metavar="[DIR|RUN|RECORDING|LOAD]")
@click.option(
    "--instance", "instance_name", metavar="NAME", help="Instance type, such as r7i.2xlarge."
)
@click.option(
    "--volume", "volume_spec", metavar="VOLUME", help="Volume, such as gp3:700GiB:10000:500."
)
@click.option("--region", default="", help="Price region; by default the only known one.")
@output_option("-o", "--output", about="Also write the limits and the load as an HTML page.")
@results_option
@json_option
def command(
    *,
    what: str,
    instance_name: str | None,
    volume_spec: str | None,
    region: str,
    output: Output,
    results: Path,
    as_json: bool,
) -> int:
    """List all limits of storage, each with the simulated load of a run or recording.

    LOAD may also be figures, such as reads=3000,writes=500,size=8KiB. Instance and provider are
    detected where the machine itself identifies them; no network request is made.

    Raises:
        UsageError: when a volume, an instance or a load cannot be used, or no limit is known.
    """
    from seatrial.catalogue.store import (  # noqa: PLC0415 - not for --help
        SeveralRegionsError,
        catalogue,
    )
    from seatrial.machine.fingerprint.tree import LIVE  # noqa: PLC0415 - likewise
    from seatrial.trials.plan.analysis import caps  # noqa: PLC0415 - likewise
    from seatrial.trials.plan.measure.recognise import recognise  # noqa: PLC0415 - likewise

    facts = catalogue()
    machine = recognise(LIVE)
    provisioned = _parsed_volume(volume_spec, facts)
    instance = _instance(instance_name, machine, facts)
    source = _named_source(what, results)
    found = [
        *(caps.caps_of_volume(provisioned, facts) if provisioned is not None else []),
        *(caps.caps_of_instance(instance, facts) if instance is not None else []),
        *source.caps,
    ]
    _check_any(found, machine)
    wasted, unpriced = None, []
    if provisioned is not None and instance is not None:
        try:
            wasted = caps.wasted_of(provisioned, instance, facts, region)
        except SeveralRegionsError as error:
            unpriced = [f"The price is left out. {error}"]
    evaluation = (
        caps.report_without_load(found, wasted)
        if not source.demands
        else caps.report_with_load(found, source.demands, provisioned, instance, wasted)
    )
    if instance is None and machine.instance:
        evaluation = msgspec.structs.replace(evaluation, not_judged=machine.instance)
    evaluation = msgspec.structs.replace(evaluation, throttled=source.throttled)
    notes = _notes(evaluation, source.rules, instance, provisioned) + unpriced
    if output.is_named:
        from seatrial.trials.plan.report.caps_page import render  # noqa: PLC0415 - likewise

        page = render(evaluation, notes, machine, source.demands)
        output.write(page, otherwise="seatrial caps LOAD --output FILE")
    _show(evaluation, machine, notes, as_json=as_json)
    return 0


def _notes(
    found: CapReport,
    rules: list[str],
    instance: Instance | None,
    provisioned: ProvisionedVolume | None,
) -> list[str]:
    from seatrial.catalogue.volumes import limits_of  # noqa: PLC0415 - not for --help
    from seatrial.trials.plan.report import caps_text  # noqa: PLC0415 - not for --help

    notes = caps_text.caps_notes(found, rules)
    if found.load and provisioned is not None and limits_of(provisioned).merges:
        notes.insert(0, caps_text.merging_sentence(limits_of(provisioned).unit_bytes))
    if found.wasted is not None and instance is not None:
        notes.insert(0, caps_text.wasted_sentence(found.wasted, instance.instance))
    return notes


def _parsed_volume(spec: str | None, facts: Catalogue) -> ProvisionedVolume | None:
    from seatrial.catalogue.volumes import limits_of, parse_volume  # noqa: PLC0415 - not for --help

    if spec is None:
        return None
    found = parse_volume(spec, facts)
    limits_of(found)
    return found


def _instance(name: str | None, machine: RentedMachine, facts: Catalogue) -> Instance | None:
    """Return the named instance, or that of this machine."""
    from seatrial.catalogue.facts import Instance  # noqa: PLC0415 - not for --help

    if name is None and machine.instance:
        return facts.instance_of(machine.provider, machine.instance)
    if name is None:
        return None
    found = facts.find("instances", name)
    return found if isinstance(found, Instance) else None


class _Source(NamedTuple):
    """Loads, measured caps, rules of arrays and throttled stalls of what a user names."""

    demands: list[Demand]
    caps: list[Cap]
    rules: list[str]
    throttled: int = 0


def _named_source(what: str, results: Path) -> _Source:
    """Return what is known of the source that a user names; nothing without a name."""
    from seatrial.cli.sources import load_source  # noqa: PLC0415 - likewise
    from seatrial.findings.summary import summarise  # noqa: PLC0415 - likewise
    from seatrial.machine.fingerprint import take_fingerprint  # noqa: PLC0415 - likewise
    from seatrial.topic import topic_of  # noqa: PLC0415 - likewise
    from seatrial.trials.plan.analysis import measured_caps  # noqa: PLC0415 - likewise
    from seatrial.trials.plan.commands.load_source import (  # noqa: PLC0415 - likewise
        demands_of,
        demands_of_samples,
        is_typed,
    )

    if not what:
        return _Source([], [], [])
    path = Path(what)
    if is_typed(what) or is_parquet(path):
        return _Source(demands_of(what, results), [], [])
    if path.is_dir() or path.is_block_device():
        fingerprint = take_fingerprint(path)
        rules = [*measured_caps.array_rules(fingerprint)]
        return _Source([], measured_caps.caps_of_groups(fingerprint), rules)
    source = load_source(what, results)
    has_load = any(topic_of(each.cell).in_rounds for each in source.samples)
    return _Source(
        demands=demands_of_samples(source.run, source.samples) if has_load else [],
        caps=measured_caps.caps_of_run(summarise(source.run, source.samples)),
        rules=[*measured_caps.array_rules(source.run.fingerprint_before)],
        throttled=measured_caps.throttled_stalls(source.samples),
    )


def _check_any(found: list[Cap], machine: RentedMachine) -> None:
    """Raise UsageError if no limit is known, with what is known of the machine."""
    if found:
        return
    disks = [each for each in machine.disks if each.kind == "volume"]
    seen = "No limit is known for this storage"
    cause = "This machine does not identify its instance type, and no volume was named"
    if machine.provider:
        what = machine.instance or "an unidentified instance"
        cause = f"This machine is {what} of {machine.provider}, which is not in the catalogue"
    size = format_size(disks[0].size_bytes).replace(" ", "") if disks else "700GiB"
    raise UsageError(
        seen=seen,
        cause=cause,
        next_step=f"Name them: `seatrial caps --instance r7i.2xlarge --volume gp3:{size}`",
    )


def _show(found: CapReport, machine: RentedMachine, notes: list[str], *, as_json: bool) -> None:
    from seatrial.trials.plan.documents import CapsDocument  # noqa: PLC0415 - likewise
    from seatrial.trials.plan.report import caps_text  # noqa: PLC0415 - likewise

    verdict = caps_text.verdict_line(found)
    if as_json:
        document = CapsDocument(verdict=verdict, notes=notes, machine=machine, found=found)
        click.echo(document.as_text(), nl=False)
        return
    click.echo(wrapped(verdict))
    click.echo()
    click.echo(table_text(caps_text.caps_table(found)))
    load = [f"{name}: {origin}." for name, origin in caps_text.loads_of(found).items()]
    for each in load + notes:
        click.echo(wrapped(each, " - "))
