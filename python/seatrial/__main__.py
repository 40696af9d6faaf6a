"""The entry point: the script ``seatrial`` and ``python -m seatrial``.

Importing the rest takes some 30 ms, in which Python's own handler of SIGINT would print a traceback
from the middle of an import. There is nothing to undo then.
"""

from __future__ import annotations

import signal
from typing import NoReturn

__all__ = ["main"]

# Not if SIGINT is ignored, as it is for background programs of some shells.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> NoReturn:
    """Run the command line and exit with one of ``errors.EXIT_CODES``."""
    from seatrial.cli.main import main as run  # noqa: PLC0415 - after the signal is dealt with

    run()


if __name__ == "__main__":
    main()
