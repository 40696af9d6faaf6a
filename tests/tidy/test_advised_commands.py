"""Every command line that product or documents show is one that the real commands take."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator

import click
import pytest

from seatrial.cli.main import commands as all_commands
from seatrial.cli.main import seatrial
from tidy.sources import PRODUCT, Source, assert_kept, breach, ours

COMMANDS = all_commands()
PLACEHOLDER = "X"
"""Stands for what a program puts in, and for any value that is written in capitals."""
IN_QUOTES = re.compile(r"`+((?:sudo +)?(?:\S*/)?seatrial +[^`]+?)`+|'(seatrial +[^'`]+)'")
ON_A_LINE = re.compile(
    r"^(?:Again:|Next:|Resume:|\$|;|#)? *((?:sudo +)?(?:\S*/)?seatrial +[a-z-].*)$", re.MULTILINE
)
ENDS = re.compile(r" {2,}| *[|;&<>]| #| \\u2026")
NOT_A_WORD = re.compile(r"\.{3}|\u2026")
GLUED = re.compile(rf"^(--[a-z-]+){PLACEHOLDER}$")
"""An option with what may be put in behind it: nothing, or one more."""
SUDO = re.compile(r"\bsudo +seatrial\b")


def shown_in(source: Source) -> Iterator[tuple[int, str]]:
    """Every text of a file in which a command may stand, with its line."""
    if source.suffix == ".py":
        tree = source.tree()
        inside = {id(part) for node in ast.walk(tree) for part in parts_of(node)}
        for node in ast.walk(tree):
            if id(node) not in inside and (text := text_of(node)):
                yield node.lineno, text
    elif source.suffix == ".md":
        # Of a table's row, cells stand side by side.
        yield 1, re.sub(r"\\\|", "/", source.text)
    else:
        yield 1, re.sub(r"^# ?", "", source.text, flags=re.MULTILINE)


def parts_of(node: ast.AST) -> list[ast.expr]:
    return node.values if isinstance(node, ast.JoinedStr) else []


def text_of(node: ast.AST) -> str:
    """The text of a string, with a placeholder for each value that is put in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return ""
    return "".join(text_of(each) or PLACEHOLDER for each in node.values)


def commands_in(text: str) -> Iterator[tuple[int, str]]:
    """Every command line in a text, with its position."""
    for found in IN_QUOTES.finditer(text):
        yield found.start(), " ".join((found[1] or found[2]).split())
    for found in ON_A_LINE.finditer(text):
        command = ENDS.split(found[1].replace("`", ""))[0]
        # What begins a line may as well be a name or a sentence.
        is_shown = found[0] != found[1] or command.split()[1] in COMMANDS
        if is_shown and found[1].count("`") % 2 == 0:
            yield found.start(), command


def words_of(line: str) -> list[str]:
    """The words behind the program, without what is optional or stands for more of the same."""
    line = ENDS.split(line)[0]
    while line != (outside := re.sub(r"\[[^\[\]]*\]", "", line)):
        line = outside
    try:
        words = shlex.split(line)
    except ValueError:
        # A quotation mark of the sentence around it.
        words = line.split()
    while words and not words[0].endswith("seatrial"):
        words.pop(0)
    words = [GLUED.sub(r"\1", word) for word in words]
    return [word.rstrip(",.:)") for word in words[1:] if not NOT_A_WORD.fullmatch(word)]


def resolved(words: list[str]) -> tuple[click.Context, list[str]]:
    """The innermost command that words name, and the words behind it.

    Raises:
        click.UsageError: when there is none of that name.
    """
    context = click.Context(seatrial, info_name="seatrial")
    while isinstance(context.command, click.Group) and words and not words[0].startswith("-"):
        name, *words = words
        below = context.command.get_command(context, name)
        if below is None:
            raise click.UsageError(f"there is no command {name!r}")
        context = click.Context(below, info_name=name, parent=context)
    return context, words


def wrong_in(line: str) -> str:
    """What the real command has against a command line; empty where it takes it."""
    words = words_of(line)
    if words[:1] == [PLACEHOLDER]:
        return ""
    try:
        context, words = resolved(words)
        parser = context.command.make_parser(context)
        values, rest, _order = parser.parse_args(list(words))
    except click.BadOptionUsage as error:
        # A mention of an option by its name alone, such as `seatrial db --url`.
        return "" if words[-1] == error.option_name else error.format_message()
    except click.UsageError as error:
        return error.format_message()
    if rest:
        return f"it does not take {' '.join(rest)!r}"
    return next(unfit(context.command, values), "")


def unfit(command: click.Command, values: dict[str, object]) -> Iterator[str]:
    """Values that are none of those that an option takes."""
    for parameter in command.params:
        value = values.get(parameter.name or "")
        choice = parameter.type
        if not isinstance(choice, click.Choice) or not isinstance(value, str) or value.isupper():
            continue
        if value not in choice.choices:
            yield f"{parameter.opts[0]} takes {', '.join(choice.choices)}, not {value!r}"


def unparsable(sources: list[Source]) -> Iterator[str]:
    for source in sources:
        for line, text in shown_in(source):
            for position, command in commands_in(text):
                if wrong := wrong_in(command):
                    number = line + text.count("\n", 0, position)
                    yield breach(source, number, f"`{command}`: {wrong}")


def shown() -> list[Source]:
    """Product, documents and shipped studies."""
    return [*ours(".py", ".toml", under=PRODUCT), *ours(".md")]


def test_every_command_that_is_shown_is_one_that_is_taken() -> None:
    sources = [each for each in shown() if not each.path.startswith("docs/principles")]
    found = [
        each for source in sources for _, text in shown_in(source) for each in commands_in(text)
    ]
    assert len(found) > 300
    assert_kept(unparsable(sources))


def test_no_command_is_shown_that_sudo_does_not_find() -> None:
    """``sudo`` looks in folders of its own, and the program lies in a virtual environment."""
    for source in shown():
        for number, line in enumerate(source.lines, start=1):
            assert not SUDO.search(line), f"{source.path}:{number}"


@pytest.mark.parametrize(
    "line",
    [
        "seatrial sho last",
        "seatrial sql shw x.trace",
        "seatrial study next-xraid --trace x.trace",
        "seatrial list one two",
        "seatrial io /mnt/ssd --engine sync",
        "seatrial export last --format cvs",
        "seatrial loadline /mnt/ssd --p99 5ms exit code 3",
    ],
)
def test_a_command_that_is_not_taken_is_seen(line: str) -> None:
    assert wrong_in(line)
    assert list(unparsable([Source("a.md", f"Try `{line}`.")]))
    assert list(unparsable([Source("a.md", f"So:\n\n    {line}\n")]))
    assert list(unparsable([Source("a.py", f'E = """\\b\n  {line}   as it is\n"""')]))


@pytest.mark.parametrize(
    "line",
    [
        "seatrial show last",
        "sudo .venv/bin/seatrial db /mnt/ssd --crash=3 --power-cut=lying",
        "seatrial db [[LABEL=]DIR]... --url",
        "seatrial export RUN --format F",
        "seatrial sql compare a0.csv..a1.csv b0.csv..b1.csv",
    ],
)
def test_a_command_that_is_taken_is_left_alone(line: str) -> None:
    assert not wrong_in(line)


def test_what_a_program_puts_in_is_any_word() -> None:
    text = 'x = f"See `seatrial show {run.id} --results {place}`"'
    assert not list(unparsable([Source("a.py", text)]))
    assert list(unparsable([Source("a.py", text.replace("results", "result-file"))]))
