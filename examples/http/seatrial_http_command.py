"""``seatrial http URL``: timed GETs of one address, without a study file."""

from __future__ import annotations

import click

from seatrial.cli.options import MeasureOptions, measuring_options

EPILOG = """\b
Examples:
  seatrial http http://localhost:8080/
  seatrial http http://localhost:8080/ --clients 4 --seconds 10 --label "new server"
"""


@click.command("http", epilog=EPILOG)
@click.argument("url")
@click.option("--clients", type=int, default=1, show_default=True, help="Requests at once.")
@click.option("--seconds", type=float, default=5.0, show_default=True, help="Length of a sample.")
@measuring_options
def command(*, url: str, clients: int, seconds: float, measuring: MeasureOptions) -> int:
    """GET URL again and again, in three rounds."""
    from seatrial.cli.study_command import plan_for, show_or_measure
    from seatrial.study.load import study_from_options

    workload = {"kind": "http", "url": url, "clients": clients, "seconds": seconds}
    study = {
        "name": "http",
        "rounds": {"min": 3, "max": 3},
        "target": [{"label": "server", "kind": "null"}],
        "workload": [workload],
    }
    return show_or_measure(plan_for(study_from_options(study)), measuring)
