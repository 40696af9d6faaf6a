"""``seatrial trace``: recorded block requests, and what kind of load they are."""

from __future__ import annotations

from pathlib import Path

import click

from seatrial import _core
from seatrial.cli.files import TRACE, Output, OutputPath, output_option
from seatrial.cli.options import json_option
from seatrial.trials.watch.commands.trace_replay import replay

EPILOG = """\b
Examples:
  seatrial trace show pgbench.rec
  seatrial trace show pgbench.rec --output load.html
  seatrial trace import sda.blktrace.0 -o sda.rec
  seatrial trace replay pgbench.rec --to /mnt/new

\b
See docs/load.md.
"""

IMPORT_EPILOG = """\b
Examples:
  seatrial trace import sda.blktrace.0 -o sda.rec     all processors' files
  seatrial trace import web_0.csv.gz -o web.rec       MSR Cambridge
  seatrial trace import io.log --format fio-iolog -o fio.rec

\b
docs/load.md lists the formats and what each of them does not know.
"""

SHOW_EPILOG = """\b
Examples:
  seatrial trace show pgbench.rec
  seatrial trace show pgbench.rec --output load.html
  seatrial trace show pgbench.rec --json

\b
docs/load.md describes how each figure is computed.
"""

recording_output_option = click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    type=OutputPath(TRACE),
    help="The recording to write.",
)


@click.group("trace", epilog=EPILOG)
def command() -> None:
    """Recorded block requests: what kind of load they are, and the same on other storage."""


@command.command("show", epilog=SHOW_EPILOG, short_help="Show what kind of load a recording is.")
@click.argument("recording", metavar="FILE", type=click.Path(path_type=Path, readable=False))
@output_option("-o", "--output", about="Also write the report, with charts, as an HTML page.")
@json_option
def show(*, recording: Path, output: Output, as_json: bool) -> int:
    """Show what kind of load the recording FILE is.

    Operations, sizes, sequential runs, different bytes and working sets, reuse by size of cache,
    burstiness, requests in flight, latencies; by table, process and device where known.
    """
    from seatrial.trials.watch.analysis.load.whole import load_of  # noqa: PLC0415 - not for --help
    from seatrial.trials.watch.recording import read  # noqa: PLC0415
    from seatrial.trials.watch.report import load_words  # noqa: PLC0415

    found = read(recording)
    load = load_of(found)
    next_step = next_step_of(recording, output)
    if output.is_named:
        from seatrial.trials.watch.report.load_page import render  # noqa: PLC0415

        again = f"seatrial trace show {recording} --output FILE"
        output.write(render(recording.name, found, load, next_step), otherwise=again)
    if as_json:
        from seatrial.trials.watch.documents import recording_document  # noqa: PLC0415

        document = recording_document(
            found.about,
            load,
            load_words.kind_line(load),
            load_words.notable(load),
            load_words.doubts(load, found.about),
        )
        click.echo(document, nl=False)
    else:
        from seatrial.trials.watch.report.load_text import load_text  # noqa: PLC0415

        click.echo(load_text(load, found.about, next_step))
    return 0


@command.command(
    "import", epilog=IMPORT_EPILOG, short_help="Make a recording of another program's trace."
)
@click.argument("trace", metavar="FILE", type=click.Path(path_type=Path, readable=False))
@click.option(
    "--format",
    "trace_format",
    type=click.Choice(["auto", *_core.FOREIGN_FORMATS]),
    default="auto",
    show_default=True,
    help="Format of the file; auto detects it by the first records.",
)
@recording_output_option
@click.option("--force", is_flag=True, help="Replace the recording if it exists.")
def import_(*, trace: Path, trace_format: str, output: Path, force: bool) -> int:
    """Read FILE, a trace of another program, into a recording.

    blktrace, fio's write_iolog, the traces of MSR Cambridge, Alibaba, Tencent, CloudPhysics
    (vscsi), SPC/UMass, ARC and libCacheSim; compressed by gzip or not. What a format does not know
    stays unknown.
    """
    from seatrial.cli.files import keeping_owner, trace_to_write  # noqa: PLC0415 - not for --help
    from seatrial.errors import native_errors  # noqa: PLC0415
    from seatrial.trials.watch.recording import read_about  # noqa: PLC0415
    from seatrial.trials.watch.report.import_text import import_text  # noqa: PLC0415

    place = trace_to_write(output, force=force)
    wanted = None if trace_format == "auto" else trace_format
    with keeping_owner(place), native_errors():
        found, requests, total_bytes, files = _core.import_recording(trace, wanted, place)
    click.echo(import_text(found, requests, total_bytes, files, read_about(place)))
    click.echo(f"Next: `seatrial trace show {output}`")
    return 0


def next_step_of(recording: Path, output: Output) -> str:
    """Return what to do next with a recording: look at its charts."""
    if output.place is not None:
        return f"See the charts in {output.place}."
    return f"See it over time: `seatrial trace show {recording} --output load.html`"


command.add_command(replay)
