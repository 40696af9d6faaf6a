"""Every command shows in its help how it is used."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator

import click
import pytest

from tidy.sources import ROOT, assert_kept


def group() -> click.Group:
    """The group of all commands, whatever its name is in ``seatrial.cli.main``."""
    module = importlib.import_module("seatrial.cli.main")
    return next(each for each in vars(module).values() if isinstance(each, click.Group))


def without_example(commands: click.Group) -> Iterator[str]:
    context = click.Context(commands, info_name="seatrial")
    for name in commands.list_commands(context):
        command = commands.get_command(context, name)
        assert command is not None, name
        text = command.get_help(click.Context(command, parent=context, info_name=name))
        below_usage = text.partition("\n")[2]
        if not re.search(rf"\bseatrial {name}\b", below_usage):
            yield f"seatrial {name} --help shows no example"


def test_every_command_has_an_example() -> None:
    commands = group()
    assert commands.list_commands(click.Context(commands))
    assert_kept(without_example(commands))


def test_the_page_of_commands_names_every_command() -> None:
    commands = group()
    page = (ROOT / "docs/commands.md").read_text()
    named = set(re.findall(r"`seatrial (\w+)", page))
    assert named == set(commands.list_commands(click.Context(commands)))


def leaves(command: click.Command, *names: str) -> Iterator[tuple[str, set[str]]]:
    """Each command that has no commands below it, with the options that its help shows."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            each = command.get_command(context, name)
            assert each is not None, name
            yield from leaves(each, *names, name)
    else:
        shown = [each for each in command.params if not getattr(each, "hidden", False)]
        yield " ".join(names), {word for each in shown for word in each.opts}


def test_the_page_of_commands_names_those_without_json_or_live() -> None:
    page = (ROOT / "docs/commands.md").read_text()
    sentence = page.split("prints one JSON document")[1].partition("have none")[0]
    found = dict(leaves(group()))
    assert set(re.findall(r"`([\w ]+)`", sentence)) == {
        name for name, options in found.items() if "--json" not in options
    }
    assert [
        name
        for name, options in found.items()
        if "--progress" in options and "--live" not in options
    ] == ["lab"]


@pytest.mark.parametrize(
    ("epilog", "offences"), [(None, 1), ("Example: seatrial check /mnt/ssd", 0)]
)
def test_missing_example_is_seen(epilog: str | None, offences: int) -> None:
    command = click.Command("check", help="Looks.", epilog=epilog)
    commands = click.Group("seatrial", {"check": command})
    assert len(list(without_example(commands))) == offences
