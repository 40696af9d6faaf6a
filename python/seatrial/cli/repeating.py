"""Command lines that are printed to be typed next, as a shell would take them."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from seatrial import program
from seatrial.cli.options import default_results


def next_command(*words: str | Path, results: Path) -> str:
    """Return a command of this program that reads or writes the same results file.

    Args:
        words: Of the command, without the program.
        results: The results file; named where it is not the one that is used unless named.
    """
    reported = [program.called(), *words]
    if results.absolute() != default_results().absolute():
        reported += ["--results", results]
    return _shell_words(reported)


def this_command(*more: str, without: Sequence[str] = ()) -> str:
    """Return the command that runs, with the options that are to be given in place of others.

    Args:
        more: Words behind it.
        without: Options, each with a value, that are left out.
    """
    return _shell_words([program.called(), *_without(sys.argv[1:], without), *more])


def command_line() -> str:
    """Return the command that runs, as it is kept with its run: wherever the program lies."""
    return _shell_words([program.NAME, *sys.argv[1:]])


def repeated(command: str) -> str:
    """Return a command line that was kept with a run, with the program as it is called here."""
    return _shell_words([program.called(), *shlex.split(command)[1:]])


def _shell_words(words: Iterable[str | Path]) -> str:
    """Return words as a shell would take them, without the passwords of addresses.

    Bytes that are no text are told as their codes.
    """
    from seatrial.cli.server_urls import without_password  # noqa: PLC0415 - not for --help

    texts = (os.fsencode(word).decode("utf-8", "backslashreplace") for word in words)
    return shlex.join(map(without_password, texts))


def _without(words: Iterable[str], options: Sequence[str]) -> Iterator[str]:
    """Yield the words that are neither one of the options nor its value."""
    is_value = False
    for word in words:
        if is_value or any(word.startswith(f"{option}=") for option in options):
            is_value = False
        elif word in options:
            is_value = True
        else:
            yield word
