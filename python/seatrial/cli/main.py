"""``seatrial``: the group of all commands, each loaded when it is called, and the exit code."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections import defaultdict
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Final, NoReturn

import click

from seatrial import interrupts
from seatrial.cli import output
from seatrial.errors import EXIT_PARTIAL, PartialResult, SeatrialError, UsageError
from seatrial.topic import Command, installed_topics, own_topics, topics

_CLI: Final = "seatrial.cli"
_ERRORS: Final = re.compile(r"\n\s*Raises:")

COMMANDS: Final = {
    "run": Command(
        "The quick trial of a directory: about two minutes, one report.",
        f"{_CLI}.study_command:run_command",
        section="Measure",
    ),
    "study": Command(
        "Run any study file, or look at its plan.",
        f"{_CLI}.study_command:command",
        section="Measure",
    ),
    "check": Command(
        "What could distort a measurement here, before anything is measured.",
        f"{_CLI}.check_command:command",
        section="Measure",
    ),
    "list": Command(
        "The runs of a results file.",
        f"{_CLI}.stored_runs:list_command",
        section="Results",
    ),
    "show": Command(
        "A run's tables, findings and verdict.",
        f"{_CLI}.stored_runs:show_command",
        section="Results",
    ),
    "compare": Command(
        "Which of two or more results is better, by how much, and whether that is real.",
        f"{_CLI}.compare_command:command",
        section="Results",
    ),
    "import": Command(
        "Store a result of fio, pgbench, bm-flash or a CSV table in the results file.",
        f"{_CLI}.import_command:command",
        section="Results",
    ),
    "export": Command(
        "Export a run: json, csv, markdown, parquet, and formats of fio, CI and others.",
        f"{_CLI}.stored_runs:export_command",
        section="Results",
    ),
    "report": Command(
        "Make the HTML report of a run again.",
        f"{_CLI}.stored_runs:report_command",
        section="Results",
    ),
    "serve": Command(
        "Browse, compare and edit the runs of a results file in a browser, on this machine only.",
        f"{_CLI}.serve_command:command",
        section="Results",
    ),
    "runs": Command(
        "Rename, annotate, delete and merge runs of a results file.",
        f"{_CLI}.runs_command:command",
        section="Results",
    ),
    "catalogue": Command(
        "Dated facts about volumes, instances and drives, and your own figures.",
        f"{_CLI}.catalogue_command:command",
        section="Plan",
    ),
    "clean": Command(
        "Undo what killed runs left behind.",
        f"{_CLI}.clean_command:command",
        section="Housekeeping",
    ),
    "completion": Command(
        "Completion of commands and options for bash, zsh or fish.",
        f"{_CLI}.completion_command:command",
        section="Housekeeping",
    ),
}
"""The commands that belong to no topic, in the order in which they are listed."""


def commands() -> dict[str, Command]:
    """Return every command in the order of the help, without importing one.

    A command of a topic comes after the one that it names in ``after``; several after the same one
    keep the order of the topics, and one after an unknown name is the last. If two have the same
    name, the first counts.
    """
    found = dict(COMMANDS)
    following: defaultdict[str, list[str]] = defaultdict(list)
    for topic in topics():
        for name, command in topic.commands.items():
            if name not in found:
                found[name] = command
                following[command.after].append(name)
    listed, waiting = list[str](), [*reversed(COMMANDS)]
    while waiting:
        name = waiting.pop()
        listed.append(name)
        waiting += reversed(following[name])
    return {name: found[name] for name in [*listed, *found]}


def sections() -> dict[str, dict[str, Command]]:
    """Return every command under its heading, in the order of the help."""
    found = commands()
    by_heading: defaultdict[str, dict[str, Command]] = defaultdict(dict)
    for name, command in found.items():
        of = command
        while not of.section and of.after in found:
            of = found[of.after]
        by_heading[of.section or "Other"][name] = command
    return by_heading


def find_command(name: str) -> Command | None:
    """Return a command by its name; other distributions are searched last, as that is slow."""
    if name in COMMANDS:
        return COMMANDS[name]
    known = (topic for those in (own_topics, installed_topics) for topic in those())
    return next((topic.commands[name] for topic in known if name in topic.commands), None)


def leave_out_errors(command: click.Command) -> None:
    """Drop the part for developers from the help of a command and of its subcommands."""
    if command.help:
        command.help = _ERRORS.split(command.help, maxsplit=1)[0]
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        leave_out_errors(each)


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help."""
        return list(commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command; None if there is none of that name."""
        found = find_command(cmd_name)
        if found is None:
            return None
        module, _, name = found.where.partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)  # noqa: S101 - a defect of ours, not of a user
        leave_out_errors(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; suggest the nearest name when there is none."""
        import difflib  # noqa: PLC0415 - only when a name is wrong

        name = args[0] if args else ""
        if name and not name.startswith("-") and find_command(name) is None:
            near = difflib.get_close_matches(name, commands(), 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"There is no command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by section with their short help, without importing them."""
        widest = max(map(len, commands()))
        for heading, listed in sections().items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(name.ljust(widest), each.help) for name, each in listed.items()]
                )


HELP: Final = """Sea trials for database storage.

Seatrial measures a drive, an array or a file system as a database will use it, says what is wrong
and why, and reports a confidence interval with every figure.
"""

EPILOG: Final = """\b
Examples:
  seatrial check /mnt/ssd             look before you measure
  seatrial run /mnt/ssd               two minutes, no root, one report
  seatrial study one-dvd-per-second --plan
  seatrial io /mnt/ssd --block-size 8k --threads 40 --seconds 10
  seatrial db /mnt/ssd                PostgreSQL on it, about three minutes
  seatrial show last

\b
Environment:
  SEATRIAL_RESULTS     the results file; by default ./results.seatrial
  SEATRIAL_STATE_DIR   folder of the undo journal; by default ~/.local/state/seatrial/undo
  SEATRIAL_CATALOGUE   your own facts; by default ~/.config/seatrial/catalogue.toml
  SEATRIAL_DEBUG=1     prints the traceback of an internal error

\b
Exit codes: 0 done, 1 internal, 2 usage, 3 threshold breached, 4 partial result, 5 refused for
safety; 6 to 11 say what is wrong with a target or a results file; 12 a crash trial found
transactions lost (docs/commands.md).
"""


@click.group(
    cls=LazyGroup,
    help=HELP,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(None, "-V", "--version", package_name="seatrial", prog_name="seatrial")
def seatrial() -> None:
    """Group of all commands."""


def main() -> NoReturn:
    """Run the command line and exit with one of ``errors.EXIT_CODES``."""
    output.install()
    interrupts.handle_signals(on_hangup=output.leave_terminal, say=partial(click.echo, err=True))
    sys.exit(_run(sys.argv[1:]))


def _run(arguments: list[str]) -> int:
    try:
        ended: object = seatrial.main(args=arguments, prog_name="seatrial", standalone_mode=False)
        sys.stdout.flush()
    except BaseException as error:
        interrupts.ignore()
        return _exit_code_after(error, arguments)
    interrupts.ignore()
    return ended if isinstance(ended, int) else 0


def _exit_code_after(error: BaseException, arguments: list[str]) -> int:
    """Report an error in the way of its kind, and return its exit code."""
    match error:
        case SeatrialError():
            return _report(error, arguments)
        case click.exceptions.Abort() | KeyboardInterrupt():
            return _report_interrupted(arguments)
        case click.ClickException() if "--json" not in arguments:
            error.show()
            return 2
        case click.ClickException():
            return _report(_usage(error), arguments)
        case output.OutputClosed():
            # `head` does that; it is not an error.
            return 0
        case Exception() if not os.environ.get("SEATRIAL_DEBUG"):
            return _report(_internal(error), arguments)
    raise error


def _report(error: SeatrialError, arguments: list[str]) -> int:
    if "--json" in arguments and not isinstance(error, output.OutputError):
        from seatrial.report.exports.json_document import error_document  # noqa: PLC0415

        with suppress(output.OutputError, output.OutputClosed):
            click.echo(error_document(error).as_text(), nl=False)
            sys.stdout.flush()
            return error.exit_code
    click.echo(f"seatrial: {error}", err=True)
    for note in getattr(error, "__notes__", ()):
        click.echo(f"seatrial: {note}", err=True)
    return error.exit_code


def _report_interrupted(arguments: list[str]) -> int:
    interrupts.acknowledge()
    if "--json" not in arguments:
        click.echo("Interrupted.", err=True)
        return EXIT_PARTIAL
    error = PartialResult(
        seen="Interrupted",
        cause="A signal, such as that of Ctrl-C, ended the command before its result",
        next_step="Run it again; `seatrial list` shows what was measured and stored",
    )
    return _report(error, arguments)


def _is_in_folder() -> bool:
    try:
        return bool(os.getcwd())  # noqa: PTH109 - a path is of no interest
    except FileNotFoundError:
        return False


def _without_folder() -> UsageError:
    return UsageError(
        seen="The current directory does not exist any more",
        cause="It was removed or unmounted after this shell had entered it",
        next_step="Change to another directory (`cd`) and run the command again",
    )


def _usage(error: click.ClickException) -> UsageError:
    return UsageError(
        seen=error.format_message(),
        cause="The command line is invalid",
        next_step="See `seatrial --help`, or --help after the command",
    )


def _too_many_open(error: OSError) -> UsageError:
    return UsageError(
        seen=f"No more files can be opened: {error}",
        cause=f"This process may have {os.sysconf('SC_OPEN_MAX')} file descriptors at once "
        "(RLIMIT_NOFILE)",
        next_step="Raise it with `ulimit -n 1024`, and run it again",
    )


def _internal(error: Exception) -> SeatrialError:
    if isinstance(error, OSError) and error.errno == errno.EMFILE:
        return _too_many_open(error)
    if isinstance(error, FileNotFoundError) and not _is_in_folder():
        return _without_folder()
    return SeatrialError(
        seen=f"An internal error: {type(error).__name__}: {error}",
        cause="This is a defect of Seatrial, not of your storage",
        next_step="Run it again with SEATRIAL_DEBUG=1 in the environment and report what it prints",
    )
