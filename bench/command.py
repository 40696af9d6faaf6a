"""What the benches' command lines share: their options, and how a section reaches the page."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from results_page import RESULTS, write_section


def parser_of(
    description: str | None, *, rounds: int, rounds_help: str, quick_help: str
) -> argparse.ArgumentParser:
    """Return a parser of what every bench takes: rounds, seed, page, and a quick run.

    Args:
        description: The bench's docstring; its first line is shown.
        rounds: So many by default.
        rounds_help: What is repeated.
        quick_help: What a quick run is.
    """
    parser = argparse.ArgumentParser(
        description=(description or "").partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=rounds, help=rounds_help)
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the page to write")
    quick_help = f"{quick_help}; written only to a page that is named"
    parser.add_argument("--quick", action="store_true", help=quick_help)
    return parser


def leave_published_page(options: argparse.Namespace) -> None:
    """Have a quick run write nothing, unless a page of its own was named."""
    options.rounds = 1
    options.results = None if options.results == RESULTS else options.results


def run_bench(
    bench: str,
    section: str,
    options: argparse.Namespace,
    text_of: Callable[[argparse.Namespace], str],
    refusals: tuple[type[Exception], ...],
) -> int:
    """Run a bench, print its section and put it into the page; 0 when it ran, whatever it found.

    Args:
        bench: Its file, as it was called.
        section: The name of its section.
        options: Those of the command line.
        text_of: Runs it and returns the section's text.
        refusals: What is reported in a sentence rather than as a fault of ours.
    """
    # A bench that is ended puts its files, devices and servers away as it does after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        text = text_of(options)
    except refusals as error:
        print(f"{bench}: {error}", file=sys.stderr)
        return 1
    print(text)
    if options.results is not None:
        write_section(options.results, section, text)
    return 0
