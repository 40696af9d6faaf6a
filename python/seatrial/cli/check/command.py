"""``seatrial check``: what could distort a measurement here."""

from __future__ import annotations

from pathlib import Path

import click

from seatrial.cli.options import json_option

EPILOG = """\b
Examples:
  seatrial check                    this machine and the current directory
  seatrial check /mnt/ssd
  seatrial check /dev/nvme0n1
"""


@click.command("check", epilog=EPILOG)
@click.argument("target", default=".")
@json_option
def command(target: str, as_json: bool) -> int:
    """Look at the machine and at TARGET, a directory or a device; nothing is measured or written.

    Names what could distort a measurement: a link narrower than it could be, a busy machine, a
    cache in between, a file system that is nearly full, io_uring forbidden, and more. It says which
    programs of PostgreSQL are found, whether a server could be run there, and which layouts could
    be built here, with what the others lack.
    """
    from seatrial.cli.check.backend import layouts_text  # noqa: PLC0415
    from seatrial.cli.check.server import check_server, server_text  # noqa: PLC0415
    from seatrial.cli.documents import check_document, stack_text  # noqa: PLC0415
    from seatrial.cli.outcome import finding_text  # noqa: PLC0415
    from seatrial.cli.places import existing  # noqa: PLC0415
    from seatrial.findings.registry import preflight  # noqa: PLC0415
    from seatrial.machine import fingerprint as context  # noqa: PLC0415 - not for --help
    from seatrial.trials.layouts.build.check import check_layouts  # noqa: PLC0415

    place = existing(target).path or Path.cwd()
    server = check_server(place) if place.is_dir() else None
    fingerprint = context.fingerprint(place)
    findings = preflight(fingerprint)
    layouts = check_layouts()
    if as_json:
        click.echo(check_document(fingerprint, findings, server, layouts), nl=False)
        return 0
    click.echo(stack_text(fingerprint))
    if server:
        click.echo(server_text(server))
    click.echo(layouts_text(layouts))
    for finding in findings:
        click.echo(f"\n{finding_text(finding)}")
    if not findings:
        click.echo("\nNothing here stands in the way of a measurement.")
    return 0
