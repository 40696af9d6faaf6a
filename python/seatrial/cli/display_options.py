"""How much of a run a command prints: the answer, the answer with all tables, the verdict alone.

The options are read from the context of the command where they are needed, so that no command has
to pass them on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from seatrial.findings.profiles import BUILT_IN
from seatrial.report.terminal import text_width

WIDTH_DEFAULT: Final = 80

_META: Final = "seatrial.showing"


class DisplayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a command prints and writes of a run.

    Attributes:
        tables: Whether all tables, findings and timelines follow the answer.
        quiet: Whether only the verdict line is printed.
        profile: Name or file of the profile that figures are graded by; empty for none.
        report: Whether a report is written.
        progress: How progress is shown on standard error: ``auto``, ``plain``, ``json``, ``none``.
        live: Whether the run is shown on a page while it is measured.
        port: The TCP port of that page; None where none was given.
    """

    tables: bool = False
    quiet: bool = False
    profile: str = ""
    report: bool = True
    progress: str = "auto"
    live: bool = False
    port: int | None = None


def display_options() -> DisplayOptions:
    """Return what the current command shows; the defaults outside of a command."""
    context = click.get_current_context(silent=True)
    found = context.meta.get(_META, {}) if context else {}
    return DisplayOptions(**found)


def width() -> int:
    """Return the width of an answer: the terminal's, 60 to 200 columns; 80 without a terminal."""
    return text_width(WIDTH_DEFAULT)


def _keep(name: str) -> Callable[[click.Context, click.Parameter, object], None]:
    def keep(context: click.Context, _parameter: click.Parameter, value: object) -> None:
        if value or (name == "port" and value is not None):
            context.meta.setdefault(_META, {})[name] = value if name != "report" else False

    return keep


def _check_profile(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value and value not in BUILT_IN and not Path(value).is_file():
        from seatrial.findings.profile import load_profile  # noqa: PLC0415 - only on this way out

        load_profile(value)
    _keep("profile")(context, parameter, value)


def _completed(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[Any]:
    names = [click.shell_completion.CompletionItem(name) for name in BUILT_IN]
    files = click.shell_completion.CompletionItem(incomplete, type="file")
    return [each for each in names if each.value.startswith(incomplete)] or [files]


_TABLES = click.option(
    "--tables",
    is_flag=True,
    expose_value=False,
    callback=_keep("tables"),
    help="Print all tables and findings after the answer.",
)
_QUIET = click.option(
    "--quiet",
    "-q",
    is_flag=True,
    expose_value=False,
    callback=_keep("quiet"),
    help="Print only the verdict line.",
)
_PROFILE = click.option(
    "--profile",
    metavar="NAME|FILE",
    expose_value=False,
    callback=_check_profile,
    shell_complete=_completed,
    help="Grade the figures for a use: oltp, warehouse, telemetry, log, or a TOML file "
    "(docs/profiles.md).",
)
_NO_REPORT = click.option(
    "--no-report",
    is_flag=True,
    expose_value=False,
    callback=_keep("report"),
    help="Write no HTML report.",
)


def run_display_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add ``--tables``, ``--quiet`` and ``--profile``."""
    return _TABLES(_QUIET(_PROFILE(function)))


def answer_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add ``--tables`` and ``--quiet``, for results that no profile grades."""
    return _TABLES(_QUIET(function))


progress_option = click.option(
    "--progress",
    type=click.Choice(["auto", "plain", "json", "none"]),
    default="auto",
    show_default=True,
    expose_value=False,
    callback=_keep("progress"),
    help="Progress on standard error: a bar on a terminal, lines, or JSON lines (docs/json.md).",
)
PORT_MAX: Final = 65_535
_LIVE: Final = click.option(
    "--live",
    is_flag=True,
    expose_value=False,
    callback=_keep("live"),
    help="Show the run on a local web page while it is measured (docs/watch.md).",
)
_LIVE_PORT: Final = click.option(
    "--port",
    type=click.IntRange(0, PORT_MAX),
    expose_value=False,
    callback=_keep("port"),
    help="The TCP port of the page of --live; by default a free one.",
)


def live_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add ``--live`` and its ``--port``; `seatrial.cli.live` acts on them."""
    return _LIVE(_LIVE_PORT(function))


profile_option = _PROFILE
no_report_option = _NO_REPORT
