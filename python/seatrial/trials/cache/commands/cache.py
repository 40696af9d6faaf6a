"""``seatrial cache``: predicts the effect of more memory or an SSD in front."""

from __future__ import annotations

import click

from seatrial.trials.cache.commands.predict import predict
from seatrial.trials.cache.commands.sweep import sweep

EPILOG = """\b
Examples:
  seatrial cache predict pgbench.rec
  seatrial cache predict pgbench.rec --ram 8GiB,32GiB --ssd 0,200GiB --output cache.html
  seatrial cache sweep /mnt/ssd --log prod.trace --prepare prod.dump

\b
docs/cache.md describes what is simulated and how it was checked.
"""


@click.group("cache", epilog=EPILOG)
def command() -> None:
    """Predict the effect of more memory or an SSD cache."""


command.add_command(predict)
command.add_command(sweep)
