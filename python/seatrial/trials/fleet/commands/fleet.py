"""``seatrial fleet``: the hosts of a Ray cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from seatrial.cli.options import json_option
from seatrial.trials.fleet.commands.lab import lab

if TYPE_CHECKING:
    from seatrial.stats.model import Finding
    from seatrial.trials.fleet.analysis.hosts import FleetFacts

EPILOG = """\b
Examples:
  seatrial fleet check --ray auto
  seatrial fleet check --ray 10.0.0.1:6379 /mnt/nfs postgresql://db1:5432

\b
docs/fleet.md describes five kinds of cluster, and which ports to open.
"""


@click.group("fleet", epilog=EPILOG)
def command() -> None:
    """Check the hosts of a Ray cluster; `seatrial[ray]` must be installed on each."""


command.add_command(lab)


@command.command("check", epilog=EPILOG, short_help="Check hosts for what would distort results.")
@click.option(
    "--ray",
    "address",
    metavar="ADDRESS",
    required=True,
    help="HOST:PORT of the head, or auto for the cluster of this machine.",
)
@click.argument("targets", metavar="[PATH|URL]...", nargs=-1)
@json_option
def check(*, address: str, targets: tuple[str, ...], as_json: bool) -> int:
    """Check all hosts of a cluster, their clocks and network, and what each of them reaches.

    PATH is a directory that a study would use on every host, URL a server that they would load.
    Nothing is written.

    Raises:
        ClusterError: when Ray is not installed, or the cluster cannot be used.
    """
    from seatrial.findings.registry import find_in_hosts  # noqa: PLC0415 - not for --help
    from seatrial.trials.fleet.documents import FleetCheckDocument  # noqa: PLC0415 - likewise
    from seatrial.trials.fleet.measure.check import inspect_hosts  # noqa: PLC0415 - likewise
    from seatrial.trials.fleet.report.check_text import verdict_line  # noqa: PLC0415 - likewise

    facts = inspect_hosts(address, targets)
    findings = find_in_hosts(facts)
    verdict = verdict_line(facts, [*findings, *(f for host in facts.hosts for f in host.findings)])
    if as_json:
        document = FleetCheckDocument(verdict=verdict, facts=facts, findings=findings)
        click.echo(document.as_text(), nl=False)
        return 0
    _show(verdict, facts, findings)
    return 0


def _show(verdict: str, facts: FleetFacts, findings: list[Finding]) -> None:
    from seatrial.report.terminal import finding_text, table_text  # noqa: PLC0415 - not for --help
    from seatrial.trials.fleet.report import check_text  # noqa: PLC0415 - likewise

    click.echo(verdict)
    for table in (check_text.hosts_table(facts), check_text.reach_table(facts)):
        if table is not None:
            click.echo(f"\n{table_text(table)}")
    for finding in findings:
        click.echo(f"\n{finding_text(finding)}")
    for names, finding in check_text.own_findings(facts):
        where = "All hosts" if len(names) == len(facts.hosts) else ", ".join(names)
        click.echo(f"\n{where}:\n{finding_text(finding)}")
