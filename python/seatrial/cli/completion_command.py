"""``seatrial completion``: the script that completes commands and options in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

EPILOG = """\b
Examples:
  source <(seatrial completion bash)                            this shell only
  seatrial completion bash > ~/.local/share/bash-completion/completions/seatrial
  seatrial completion zsh > ~/.zfunc/_seatrial
  seatrial completion fish > ~/.config/fish/completions/seatrial.fish
"""


@click.command("completion", epilog=EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, *, shell: str) -> int:
    """Print the script that completes commands, options and their values in SHELL."""
    script = get_completion_class(shell)
    assert script is not None  # noqa: S101 - click knows the three that the choice allows
    group = context.find_root().command
    source = script(group, {}, "seatrial", "_SEATRIAL_COMPLETE").source()
    # click's script for fish ends a value or a description at its first comma.
    click.echo(source.replace('string split ","', 'string split --max 1 ","'), nl=False)
    return 0
