"""A command with ``--live``: its process, and the address of its page."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

from cli.command import start


class Shown(NamedTuple):
    """A run that is measured, and where its page is.

    Attributes:
        process: The command.
        port: Of the page.
        token: It works once.
        said: What the command had printed on standard error until then.
    """

    process: subprocess.Popen[str]
    port: int
    token: str
    said: str

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/?token={self.token}"


def shown(*arguments: str | Path, folder: Path) -> Shown:
    """Start a measuring command with ``--live``, and wait until its page is served."""
    process = start(*arguments, "--live", folder=folder)
    assert process.stderr
    said = ""
    while True:
        line = process.stderr.readline()
        assert line, said
        said += line
        if found := re.search(r"^Live page, .*http://127\.0\.0\.1:(\d+)/\?token=(\S+)$", line):
            return Shown(process, int(found[1]), found[2], said)
