"""RESULTS.md: each bench overwrites its own section and leaves everything else as it is."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from seatrial import _core
from seatrial.machine.fingerprint.machine import machine
from seatrial.machine.fingerprint.tree import SystemTree
from seatrial.units import GIB

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "bench" / "RESULTS.md"
CODE: Final = ("crates", "python", "bench")

HEADER: Final = """# Results of the benches

Text between a pair of markers was written by the bench that the markers name, and is
overwritten when it runs again. Other text was written by hand.
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
    memory_gib = (facts.memory_bytes or 0) / GIB
    return [
        f"- processor: {facts.cpu_model}, {facts.cpus_online} online, "
        f"virtualisation: {facts.virtualisation}",
        f"- memory: {memory_gib:.0f} GiB",
        f"- kernel: {facts.kernel}, clock source {facts.clock_source}; {facts.distribution}",
        f"- seatrial {_core.__version__} at {_revision()}, Python {platform.python_version()}",
    ]


def _revision() -> str:
    """Return the commit, and what of the code differs from it or is not built yet."""
    try:
        commit = _git("rev-parse", "--short", "HEAD")
        changed = [folder for folder in CODE if _git("status", "--porcelain", "--", folder)]
    except (OSError, subprocess.CalledProcessError):
        return "an unknown commit"
    doubts = [f"changes not committed in {', '.join(changed)}"] if changed else []
    if _is_stale():
        doubts.append("an engine built before its sources changed")
    return f"{commit} with {' and '.join(doubts)}" if doubts else commit


def _is_stale() -> bool:
    """Return whether a source of the engine is newer than the engine that is measured."""
    built_at_s = Path(_core.__file__).stat().st_mtime
    sources = (ROOT / "crates").rglob("*.rs")
    return any(source.stat().st_mtime > built_at_s for source in sources)


def _git(*words: str) -> str:
    answer = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
    return answer.stdout.strip()
