"""Options that several commands share."""

from __future__ import annotations

import functools
import math
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from click.shell_completion import CompletionItem

from seatrial import program
from seatrial.cli.display_options import (
    live_options,
    no_report_option,
    progress_option,
    run_display_options,
)
from seatrial.cli.files import TRACE, Output, OutputPath, output_option
from seatrial.errors import SeatrialError, UsageError
from seatrial.study.server_address import SCHEMES, holds_password

RUNS_MAX: Final = 50
"""The most runs that are completed, the newest ones."""


def complete_runs(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return ``last``, labels and ids of the newest runs with that beginning; else files."""
    from seatrial.results.store import ResultsFile  # noqa: PLC0415 - not for --help

    results = context.params.get("results") or os.environ.get("SEATRIAL_RESULTS")
    names = {"last": "the newest run"}
    try:
        with ResultsFile.open(Path(results or "results.seatrial")) as store:
            newest = sorted(store.runs(), key=lambda run: run.started_at, reverse=True)
    except (SeatrialError, OSError):
        newest = []
    for run in newest[:RUNS_MAX]:
        started = datetime.fromtimestamp(run.started_at).astimezone().strftime("%Y-%m-%d %H:%M")
        if run.label:
            names.setdefault(run.label, f"{run.study_name}, {started}")
        names[run.id] = f"{run.label or run.study_name}, {started}"
    return _beginning(names.items(), incomplete)


def complete_studies(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the shipped studies with that beginning; else files."""
    from seatrial.study.load import shipped_studies  # noqa: PLC0415 - not for --help

    return _beginning(((name, "shipped study") for name in shipped_studies()), incomplete)


def _beginning(names: Iterable[tuple[str, str]], incomplete: str) -> list[CompletionItem]:
    found = [
        CompletionItem(name, help=about) for name, about in names if name.startswith(incomplete)
    ]
    return found or [CompletionItem(incomplete, type="file")]


Mapped = dict[str, object]
"""Part of a study, as its TOML has it."""

RESULTS_NAME: Final = "results.seatrial"


def default_results() -> Path:
    """Return the results file that is used if none is named."""
    return Path(os.environ.get("SEATRIAL_RESULTS") or RESULTS_NAME)


results_option = click.option(
    "--results",
    type=click.Path(dir_okay=False, path_type=Path),
    is_eager=True,  # an output must not replace it
    default=default_results,
    show_default=f"$SEATRIAL_RESULTS or ./{RESULTS_NAME}",
    help="The results file.",
)

json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    is_eager=True,  # an output to standard output asks whether it is given
    help="One JSON document on standard output (docs/json.md).",
)

ray_option = click.option(
    "--ray",
    metavar="ADDRESS",
    help="Use the hosts of a Ray cluster: HOST:PORT of its head, or auto for this machine's.",
)

_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|min|m|h|d)?")
_SECONDS_OF: Final = {
    "ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0
}  # fmt: skip


class FiniteRange(click.FloatRange):
    """A range of numbers without NaN, which click finds inside every range, and infinity."""

    def convert(
        self, value: float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number; raises click.BadParameter for any that is out of range."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class Duration(click.ParamType[float]):
    """A length of time as ``90``, ``90s``, ``10m`` or ``1h``; its value is in seconds.

    Args:
        low_s: The least.
        high_s: The most.
    """

    name = "time"

    def __init__(self, low_s: float = 0.001, high_s: float = 3650 * 86_400.0) -> None:
        self._low_s, self._high_s = low_s, high_s

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds; raises click.BadParameter for an invalid time, or one out of range."""
        found = _DURATION.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is not a duration such as 90s, 10m or 1h", param, ctx)
        seconds = float(found[1]) * _SECONDS_OF[found[2]]
        if not self._low_s <= seconds <= self._high_s:
            self.fail(
                f"{value!r} is not between {self._low_s:g} s and {self._high_s:g} s", param, ctx
            )
        return seconds


run_argument = click.argument("run", default="last", shell_complete=complete_runs)

trace_output_option = click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    type=OutputPath(TRACE),
    help="The trace to write, such as prod.trace.",
)

destroy_option = click.option(
    "--destroy",
    metavar="SERIAL,...",
    help="Serial number (or exact path, where it has none) of the device or file whose content "
    "may be overwritten; separate several drives by commas.",
)

report_option = output_option(
    "--report",
    about="The HTML report to write; by default in seatrial-reports next to the results file.",
)

LABEL_CHARACTERS_MAX: Final = 100


NOTE_CHARACTERS_MAX: Final = 2000


def checked_text(text: str, what: str, letters_max: int, *, lines: bool = False) -> str:
    """Return a label or a note that a table can show, without blanks around it.

    Args:
        text: What the user wrote.
        what: What it is called in messages.
        letters_max: How long it may be.
        lines: Whether it may have several lines.

    Raises:
        UsageError: when it is too long, or not plain text.
    """
    text = text.replace("\r\n", "\n").strip()
    plain = text.replace("\n", "") if lines else text
    if len(text) <= letters_max and (plain.isprintable() or not plain):
        return text
    raise UsageError(
        seen=f"The {what} cannot be stored: {text[:40]!r}",
        cause=f"A {what} is plain text{'' if lines else ' in one line'} of at most {letters_max} "
        "characters",
        next_step="Shorten it, and leave out control characters",
    )


def _checked_label(_context: click.Context, _parameter: click.Parameter, label: str) -> str:
    """Return a label that a table can show; raises click.BadParameter for any other."""
    if len(label) > LABEL_CHARACTERS_MAX:
        raise click.BadParameter(f"a label has at most {LABEL_CHARACTERS_MAX} characters")
    if not label.isprintable():
        raise click.BadParameter("a label is one line of plain text")
    return label


label_option = click.option(
    "--label", default="", callback=_checked_label, help="Label of the run."
)


engine_option = click.option(
    "--engine",
    type=click.Choice(["auto", "io_uring", "psync"]),
    default="auto",
    show_default=True,
    help="How requests reach the kernel.",
)

model_option = click.option(
    "--model",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file with the model of a simulated device.",
)


def echo_former(former: str, now: str) -> None:
    """Print on standard error that an option was renamed."""
    click.echo(f"Note: {former} is now {now}.", err=True)


def former_option(
    former: str,
    now: str,
    **given: Any,  # noqa: ANN401 - as click takes them
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a hidden option with a former name, which prints its present name.

    Its value arrives as ``former_`` and the name; None where it was not given.

    Args:
        former: The former name, such as ``--file-size``.
        now: The present one, with the difference in its value.
        given: Other arguments of click's option.
    """

    def warn(_context: click.Context, _parameter: click.Parameter, value: object) -> object:
        if value is not None:
            echo_former(former, now)
        return value

    name = f"former_{former.strip('-').replace('-', '_')}"
    return click.option(former, name, hidden=True, callback=warn, **given)


plan_option = click.option(
    "--plan", "plan_only", is_flag=True, help="Only show what would be done."
)

wait_option = click.option(
    "--wait",
    "waits",
    is_flag=True,
    help="Wait while another run measures the same storage, instead of refusing.",
)


_CHANGES: Final = (
    click.option(
        "--full", is_flag=True, help="All block sizes, 512 B to 4 MiB; 1, 10, 40 threads."
    ),
    click.option("--size", metavar="SIZE", help="Size of the trial file, such as 8GiB."),
    click.option("--seconds", type=float, help="Length of each sample, except fills."),
    click.option("--rounds", type=int, help="Exact number of rounds."),
    click.option("--budget", "budget_s", type=float, metavar="SECONDS", help="Time for the run."),
    click.option(
        "--write-budget", metavar="SIZE", help="Bytes that the run may write, such as 80GiB."
    ),
    click.option("--seed", type=int, help="Seed of the order of tests and of all addresses."),
    click.option("--buffered", is_flag=True, help="Use the page cache."),
    click.option("--resume", is_flag=True, help="Resume the newest unfinished run of this plan."),
)


def changing_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add what ``run`` and ``study`` can change of a study, and ``resume``."""
    for option in reversed(_CHANGES):
        function = option(function)
    return function


_DRIVES: Final = (
    click.option(
        "--devices",
        metavar="A,B,...",
        default="",
        help="Drives to build layouts from; each must be named with --destroy.",
    ),
    click.option(
        "--loop",
        metavar="NxSIZE",
        default="",
        help="Loop devices to build layouts from, such as 6x2G.",
    ),
    click.option(
        "--loop-dir",
        metavar="DIR",
        default="",
        help="Directory for the files of loop devices; by default the current one.",
    ),
)


def drives_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the drives of layouts: ``devices``, ``loop`` and ``loop_dir``, arguments of override."""
    for option in reversed(_DRIVES):
        function = option(function)
    return function


class MeasureOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options that all measuring commands have.

    Attributes:
        results: The results file.
        report: Where the report goes; next to the results file unless a file is named.
        label: What the user calls the run.
        destroy: Serial number or path of what may be overwritten; of several, with commas.
        as_json: One JSON document instead of text.
        plan_only: Nothing is measured; the plan is shown.
        waits: Whether to wait for another run on the same storage to end.
    """

    results: Path
    report: Output
    label: str
    destroy: str | None
    as_json: bool
    plan_only: bool
    waits: bool = False


def one_argument(
    name: str,
    fields: Sequence[str],
    make: Callable[..., object],
    *options: Callable[[Callable[..., int]], Callable[..., int]],
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that adds options to a command, which gets them as one argument.

    Args:
        name: Name of the argument.
        fields: Names of the options that it holds, as in click; others are passed separately.
        make: Makes the argument of these options, given by keyword.
        options: Decorators that add the options.
    """

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def bundled(**given: object) -> int:
            argument = make(**{field: given.pop(field) for field in fields})
            return function(**{name: argument}, **given)

        command: Callable[..., int] = bundled
        for option in options:
            command = option(command)
        return command

    return decorate


measuring_options = one_argument(
    "measuring",
    MeasureOptions.__struct_fields__,
    MeasureOptions,
    *(report_option, no_report_option, run_display_options, progress_option, live_options),
    *(label_option, destroy_option, json_option, results_option, plan_option, wait_option),
)
"""Adds what ``run``, ``study`` and ``io`` have in common; it arrives as one ``measuring``."""

PASSWORD_VARIABLE: Final = "PGPASSWORD"  # noqa: S105 - its name, not its value

_BEGINNING: Final = re.compile("|".join(map(re.escape, SCHEMES)))
_PARAMETER: Final = re.compile(r"([?&](?:ssl)?password=)[^&#]*", re.IGNORECASE)
_HIDDEN: Final = "***"


def without_password(word: str) -> str:
    """Return a word of the command line without a password.

    An address with a password is cut to the user's name and what follows the last ``@``, so that
    a malformed password is removed, too.
    """
    begins = _BEGINNING.search(word)
    if begins is None or not holds_password(word[begins.start() :]):
        return word
    head, address = word[: begins.end()], word[begins.end() :]
    before, at, after = address.rpartition("@")
    user = before.partition(":")[0]
    return head + _PARAMETER.sub(rf"\1{_HIDDEN}", user + at + after)


def servers_of(urls: Sequence[str]) -> list[str]:
    """Return addresses without their password, which is put into the environment.

    There libpq finds it, in this process and its children, and nobody else sees it.

    Raises:
        UsageError: when an address cannot be read, or two have different passwords.
    """
    from seatrial.postgres.connection import parse_url  # noqa: PLC0415 - not for --help

    addresses = []
    passwords = set()
    for url in urls:
        address, secret = parse_url(url)
        addresses.append(address.as_url())
        if secret is not None:
            passwords.add(secret.reveal())
    if len(passwords) > 1:
        raise UsageError(
            seen="Two addresses have different passwords",
            cause="Only one password can be passed on, in the variable PGPASSWORD",
            next_step="Leave them out of the addresses, and write both into ~/.pgpass",
        )
    for password in passwords:
        os.environ[PASSWORD_VARIABLE] = password
        click.echo(
            "The password of the address is kept out of results and reports, but the shell's "
            "history and `ps` show it: the variable PGPASSWORD or the file ~/.pgpass do not.",
            err=True,
        )
    return addresses


def next_command(*words: str | Path, results: Path) -> str:
    """Return a command of this program that reads or writes the same results file.

    Args:
        words: The command's words, without the program.
        results: The results file; named in the command unless it is the default one.
    """
    command = [program.called(), *words]
    if results.absolute() != default_results().absolute():
        command += ["--results", results]
    return _shell_words(command)


def this_command(*more: str, without: Sequence[str] = ()) -> str:
    """Return the current command, with some options replaced by others.

    Args:
        more: Words to append.
        without: Options, each with a value, to leave out.
    """
    return _shell_words([program.called(), *_without(sys.argv[1:], without), *more])


def command_line() -> str:
    """Return the current command as it is stored with its run, without the program's path."""
    return _shell_words([program.NAME, *sys.argv[1:]])


def repeated(command: str) -> str:
    """Return a stored command line, with the program as it is called here."""
    return _shell_words([program.called(), *shlex.split(command)[1:]])


def _shell_words(words: Iterable[str | Path]) -> str:
    """Return words quoted for a shell, without the passwords of addresses.

    Invalid bytes are shown as escape sequences.
    """
    texts = (os.fsencode(word).decode("utf-8", "backslashreplace") for word in words)
    return shlex.join(map(without_password, texts))


def _without(words: Iterable[str], options: Sequence[str]) -> Iterator[str]:
    """Yield the words without some options and their values."""
    is_value = False
    for word in words:
        if is_value or any(word.startswith(f"{option}=") for option in options):
            is_value = False
        elif word in options:
            is_value = True
        else:
            yield word


def target_mapping(target: str, model: Path | None, size: object) -> Mapped:
    """Return the target of a study that a user names: a path, ``null`` or ``simulated``."""
    if target == "null":
        return without_none({"kind": "null", "size": size})
    if target == "simulated":
        from seatrial.study.load import load_model  # noqa: PLC0415 - only here

        parameters = load_model(model) if model else {}
        return without_none({"kind": "simulated", "size": size, "model": parameters})
    return without_none({"path": target, "size": size})


def without_none(mapping: Mapped) -> Mapped:
    """Return a mapping without the keys whose value is None."""
    return {key: value for key, value in mapping.items() if value is not None}
