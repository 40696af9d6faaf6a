"""Where the program begins: the script ``seatrial`` and ``python -m seatrial``.

Importing the rest takes some 30 ms. There is nothing to undo then, and Python's own handler of
SIGINT would print a traceback from the middle of an import.
"""

from __future__ import annotations

import signal
from typing import NoReturn

__all__ = ["main"]

# Not where it is ignored: a shell that starts programs so means it.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> NoReturn:
    """Run the command line and exit with one of ``errors.EXIT_CODES``."""
    from seatrial.cli.main import main as run  # noqa: PLC0415 - after the signal is dealt with

    run()


if __name__ == "__main__":
    main()
