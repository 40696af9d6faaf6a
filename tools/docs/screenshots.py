"""Renew the pictures of the README: a run's terminal and page, and what watching a server shows.

    .venv/bin/python tools/docs/screenshots.py DIRECTORY [options of `seatrial run`]
    .venv/bin/python tools/docs/screenshots.py postgresql://...     a server under load, as root

All are SVG, written to ``docs/images``. The page is drawn by Chromium with scripts switched off;
``page_picture.js`` turns the result into SVG.
"""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
IMAGES: Final = ROOT / "docs/images"
COLUMNS: Final = 80
WATCHED_S: Final = 10
AFTER_WATCHED: Final = "By process"
"""Where the picture of what was watched ends."""
PAGE_WIDTH_PX: Final = 1400
PAGE_HEIGHT_PX_MAX: Final = 1400
BELOW_CHART_PX: Final = 4
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FIRST_CHART_ENDS: Final = "document.querySelector('figure .plot').getBoundingClientRect().bottom"
TERMINAL_SVG: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace;
  font-size: {char_height}px; line-height: {line_height}px;
}}
.{unique_id}-title {{ font: 18px system-ui, 'DejaVu Sans', sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""
"""As rich has it, without the fonts that it fetches from elsewhere."""


def main(arguments: list[str]) -> None:
    """Make a run, or watch a server, and write the pictures."""
    IMAGES.mkdir(exist_ok=True)
    if arguments and "://" in arguments[0]:
        options = ["--url", arguments[0], "--for", str(WATCHED_S), "--every", str(WATCHED_S)]
        with tempfile.TemporaryDirectory() as folder:
            shown = shown_by(["watch", *options], Path(folder), on_terminal=False)
        shown = shown.partition(AFTER_WATCHED)[0].rstrip()
        command = f"seatrial watch --url postgresql:///shop --for {WATCHED_S}"
        (IMAGES / "watch.svg").write_text(terminal_svg(shown, command))
        return
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not arguments or arguments[0].startswith("-") or browser is None:
        raise SystemExit(f"{(__doc__ or '').strip()}\n\nNeeds a DIRECTORY, and Chromium.")
    with tempfile.TemporaryDirectory() as folder:
        shown = shown_by(["run", *arguments], Path(folder))
        (report,) = Path(folder, "seatrial-reports").glob("*.html")
        (IMAGES / "terminal.svg").write_text(terminal_svg(shown, f"seatrial run {arguments[0]}"))
        (IMAGES / "report.svg").write_text(page_svg(report, browser))


def shown_by(command: list[str], folder: Path, *, on_terminal: bool = True) -> str:
    """Return what a command writes, with its colours where it writes to a terminal.

    Raises:
        SystemExit: when the command fails.
    """
    ours, theirs = pty.openpty() if on_terminal else os.pipe()
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = {"PATH": programs, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    process = subprocess.Popen(
        ["seatrial", *command], cwd=folder, env=os.environ | own, stdout=theirs
    )
    os.close(theirs)
    parts = []
    while part := _read(ours):
        parts.append(part)
    os.close(ours)
    if process.wait():
        raise SystemExit(process.returncode)
    return b"".join(parts).decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        # How Linux reports that nobody writes to a terminal any more.
        return b""


def terminal_svg(shown: str, command: str) -> str:
    """Return the picture of a terminal in which a command has ended."""
    from rich.console import Console  # noqa: PLC0415 - as the product does
    from rich.text import Text  # noqa: PLC0415

    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        console.print(f"[bold green]$[/] {command}\n", highlight=False)
        console.print(Text.from_ansi(shown))
        picture = console.export_svg(title="", code_format=TERMINAL_SVG, unique_id="seatrial")
    return "\n".join(line.rstrip() for line in picture.splitlines()) + "\n"


def page_svg(report: Path, browser: str) -> str:
    """Return the picture of a page, as far as the end of its first chart."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - slow to load

    script = (Path(__file__).parent / "page_picture.js").read_text()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = chromium.new_context(
            bypass_csp=True,
            color_scheme="light",
            java_script_enabled=False,
            offline=True,
            viewport={"width": PAGE_WIDTH_PX, "height": PAGE_HEIGHT_PX_MAX},
        ).new_page()
        page.goto(report.as_uri())
        height = min(page.evaluate(FIRST_CHART_ENDS) + BELOW_CHART_PX, PAGE_HEIGHT_PX_MAX)
        picture = page.evaluate(script[script.index("(height)") :], round(height))
        chromium.close()
    return str(picture).replace("><", ">\n<") + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
