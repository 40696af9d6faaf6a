"""RESULTS.md: each bench overwrites its own section and leaves everything else as it is."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from seatrial._core import __version__
from seatrial.context.machine import machine
from seatrial.context.tree import SystemTree

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "bench" / "RESULTS.md"
BYTES_PER_GIB: Final = 1 << 30

HEADER: Final = """# Results of the benches

What stands between a pair of markers was written by the bench that the markers name, and is
overwritten when it runs again. What stands elsewhere was written by hand.
"""


def write_section(path: Path, name: str, text: str) -> None:
    """Put a bench's section in place of its last one, or at the end of the page.

    Raises:
        ValueError: When the page has only one of the section's two markers.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    page = path.read_text() if path.exists() else HEADER
    section = f"{begin}\n{text.strip()}\n{end}"
    if (begin in page) != (end in page):
        raise ValueError(f"{path} has only one of the markers of {name}")
    if begin in page:
        before, _, rest = page.partition(begin)
        page = before + section + rest.partition(end)[2]
    else:
        page = f"{page.rstrip()}\n\n{section}\n"
    path.write_text(page)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; the first column is text, the others are figures."""
    lines = [list(head), ["---", *["---:"] * (len(head) - 1)], *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine_lines() -> list[str]:
    """Return the machine and the versions, one Markdown item each."""
    facts = machine(SystemTree())
    memory_gib = (facts["memory_bytes"] or 0) / BYTES_PER_GIB
    return [
        f"- processor: {facts['cpu_model']}, {facts['cpus_online']} online, "
        f"virtualisation: {facts['virtualisation']}",
        f"- memory: {memory_gib:.0f} GiB",
        f"- kernel: {facts['kernel']}, clock source {facts['clock_source']}; "
        f"{facts['distribution']}",
        f"- seatrial {__version__} at {_revision()}, Python {platform.python_version()}",
    ]


def _revision() -> str:
    """Return the commit, and whether the engine or the bench differ from it."""
    try:
        commit = _git("rev-parse", "--short", "HEAD")
        changed = _git("status", "--porcelain", "--", "crates", "bench", "python")
    except (OSError, subprocess.CalledProcessError):
        return "an unknown commit"
    return f"{commit} with changes not committed" if changed else commit


def _git(*words: str) -> str:
    answer = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
    return answer.stdout.strip()
