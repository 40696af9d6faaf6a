"""Writes the manual pages of `seatrial` and of each of its commands, from what `--help` is made of.

    python tools/release/man_pages.py dist/man/man1

Packages that write such pages from click leave out what stands below the options: the examples, the
environment and the exit codes. Source of the format: groff_man(7).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

import click

from seatrial.cli.main import seatrial

UNWRAPPED: Final = "\b"
"""click's mark of a paragraph whose lines are kept."""


def pages(
    command: click.Command, parent: click.Context | None, name: str
) -> Iterator[click.Context]:
    """Yield the context of a command and of all below it."""
    context = click.Context(command, info_name=name, parent=parent)
    yield context
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            if found is not None and not found.hidden:
                yield from pages(found, context, each)


def page_name(context: click.Context) -> str:
    """Return a page's name, such as ``seatrial-sql-read``."""
    return context.command_path.replace(" ", "-")


def page(context: click.Context) -> str:
    """Return the manual page of a command."""
    command = context.command
    name = page_name(context)
    usage = text(" ".join(command.collect_usage_pieces(context)))
    lines = [
        f'.TH "{name.upper()}" "1" "" "seatrial {version("seatrial")}" "Seatrial"',
        ".SH NAME",
        rf"{text(name)} \- {text(command.get_short_help_str(200).rstrip('.'))}",
        ".SH SYNOPSIS",
        rf"\fB{text(context.command_path)}\fP {usage}",
        ".SH DESCRIPTION",
        *paragraphs(command.help or ""),
        *options(context),
        *commands(context),
    ]
    lines += [line for section in sections(command.epilog or "") for line in section]
    return "\n".join(lines) + "\n"


def options(context: click.Context) -> Iterator[str]:
    """Yield what each option of a command does."""
    declared = [each for each in context.command.params if isinstance(each, click.Option)]
    records = [record for each in declared if (record := each.get_help_record(context))]
    yield from (".SH OPTIONS",) if records else ()
    for option, help_text in records:
        yield from (".TP", rf"\fB{text(option)}\fP", text(" ".join(help_text.split())))


def commands(context: click.Context) -> Iterator[str]:
    """Yield the pages of the commands below a group."""
    if not isinstance(context.command, click.Group):
        return
    yield ".SH COMMANDS"
    for name in context.command.list_commands(context):
        below = context.command.get_command(context, name)
        if below is not None:
            yield from (".TP", rf"\fB{text(page_name(context))}\-{text(name)}\fP(1)")
            yield text(below.get_short_help_str(200))


def sections(epilog: str) -> Iterator[list[str]]:
    """Yield what stands below the options: a first line that ends in a colon is a heading."""
    for block in inspect.cleandoc(epilog).split("\n\n"):
        lines = [line for line in block.splitlines() if line != UNWRAPPED]
        if not lines:
            continue
        heading, colon, rest = lines[0].partition(":")
        if colon and len(heading.split()) <= 2:
            lines = [*([rest.strip()] if rest.strip() else []), *lines[1:]]
            yield [f".SH {text(heading.upper())}", ".nf", *map(text, lines), ".fi"]
        else:
            yield [".PP", ".nf", *map(text, lines), ".fi"]


def paragraphs(help_text: str) -> Iterator[str]:
    """Yield the lines of a text in paragraphs."""
    for block in inspect.cleandoc(help_text).split("\n\n"):
        is_kept = block.startswith(UNWRAPPED)
        lines = [line for line in block.splitlines() if line != UNWRAPPED]
        yield from (".PP", *((".nf",) if is_kept else ()), *map(text, lines))
        yield from (".fi",) if is_kept else ()


def text(words: str) -> str:
    """Return words for troff, to which a backslash, a minus and a first dot are commands."""
    escaped = words.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


def main(folder: Path) -> None:
    """Write every page into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for context in pages(seatrial, None, "seatrial"):
        (folder / f"{page_name(context)}.1").write_text(page(context))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
