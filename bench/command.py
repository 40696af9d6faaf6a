"""What the benches' command lines share: their options, and how a section reaches the page."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from results_page import RESULTS, write_section


def at_least(least: float) -> Callable[[str], float]:
    """Return the type of an option, for argparse: a number that is not below a limit."""

    def parsed(text: str) -> float:
        value = type(least)(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        return value

    return parsed


def parsed_options(
    arguments: Sequence[str],
    description: str | None,
    *,
    rounds: int,
    rounds_help: str,
    rounds_min: int = 1,
    quick_help: str = "one round",
    quick: Mapping[str, object] | None = None,
    own: Mapping[str, Mapping[str, Any]] | None = None,
) -> argparse.Namespace:
    """Parse the options of every bench (rounds, seed, page, a quick run) and those of one.

    Args:
        arguments: The command line.
        description: The bench's docstring; its first line is shown.
        rounds: Number of rounds by default.
        rounds_help: What is repeated.
        rounds_min: The least number of rounds.
        quick_help: What a quick run is.
        quick: Options of a quick run, which override others; one round by default.
        own: The bench's own options, each with the arguments of ``add_argument``.
    """
    parser = argparse.ArgumentParser(
        description=(description or "").partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--rounds", type=at_least(rounds_min), default=rounds, help=rounds_help)
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the page to write")
    quick_help = f"{quick_help}; written only to a page that is named"
    parser.add_argument("--quick", action="store_true", help=quick_help)
    for name, given in (own or {}).items():
        parser.add_argument(name, **given)
    options = parser.parse_args(arguments)
    if options.quick:
        vars(options).update({"rounds": 1, **(quick or {})})
        options.results = None if options.results == RESULTS else options.results
    return options


def run_bench(
    section: str,
    options: argparse.Namespace,
    text_of: Callable[[argparse.Namespace], str],
    refusals: tuple[type[Exception], ...],
) -> NoReturn:
    """Run a bench, print its section and put it into the page; exit with 0, whatever it found.

    Args:
        section: The name of its section.
        options: Those of the command line.
        text_of: Runs it and returns the section's text.
        refusals: Errors that are printed as a sentence, without a traceback.
    """
    # A terminated bench removes its files, devices and servers as after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        text = text_of(options)
    except refusals as error:
        sys.exit(f"{sys.argv[0]}: {error}")
    print(text)
    if options.results is not None:
        write_section(options.results, section, text)
    sys.exit(0)
