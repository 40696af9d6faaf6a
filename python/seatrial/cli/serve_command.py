"""``seatrial serve``: the runs of a results file in a browser, on loopback only."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import click

from seatrial.cli.display_options import PORT_MAX, profile_option
from seatrial.cli.options import results_option
from seatrial.errors import UsageError

EPILOG = """\b
Examples:
  seatrial serve
  seatrial serve --results lab.seatrial --port 8300
  ssh -L 8300:127.0.0.1:8300 HOST     then open the printed address here

\b
The server listens on 127.0.0.1 only. The printed address contains a token that works once, for the
first browser. Do not browse while a run is measuring: pages are computed on this machine.
"""


@click.command("serve", epilog=EPILOG)
@click.option(
    "--port",
    type=click.IntRange(0, PORT_MAX),
    default=0,
    metavar="PORT",
    help="The TCP port; 0, the default, selects a free one.",
)
@profile_option
@results_option
def command(port: int, results: Path) -> int:
    """Browse, compare, rename, annotate and delete runs in a browser; Ctrl-C ends it."""
    _require_packages()
    from seatrial.cli.display_options import display_options  # noqa: PLC0415 - not for --help
    from seatrial.cli.serve_app import serve  # noqa: PLC0415 - needs the packages

    serve(results, port, profile=display_options().profile)
    return 0


def _require_packages() -> None:
    missing = [each for each in ("starlette", "uvicorn") if importlib.util.find_spec(each) is None]
    if missing:
        raise UsageError(
            seen=f"`seatrial serve` needs {' and '.join(missing)}",
            cause="They are an optional extra of Seatrial, which is not installed",
            next_step="Install them with `pip install 'seatrial[serve]'`, or write static pages "
            "with `seatrial report --all`",
        )
