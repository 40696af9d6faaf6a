"""``seatrial trace``: recorded block requests, and what kind of load they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from seatrial import _core
from seatrial.cli.files import (
    RECORDING,
    Output,
    OutputPath,
    is_parquet,
    keeping_owner,
    output_option,
    writable_trace_path,
)
from seatrial.cli.options import (
    MeasureOptions,
    engine_option,
    json_option,
    label_option,
    measuring_options,
    results_option,
    target_mapping,
    without_none,
)
from seatrial.errors import UsageError, native_errors
from seatrial.trials.watch.commands.record import store as store_run

if TYPE_CHECKING:
    from seatrial.results.model import Sample
    from seatrial.trials.watch.analysis.load.imitation import Imitation


_REPLAY_EPILOG = """\b
Examples:
  seatrial trace replay pgbench.rec --to /mnt/new              at the recorded times
  seatrial trace replay pgbench.rec --to /mnt/new --speed 2    twice as fast
  seatrial trace replay pgbench.rec --to /mnt/new --speed max --rounds 3
  seatrial trace replay pgbench.rec --to /dev/nvme1n1 --destroy /dev/nvme1n1

\b
In a directory, a trial file of --size is created, filled and removed; offsets beyond its end wrap.
Devices and files are only written with --destroy. See docs/io-replay.md.
"""


class SpeedType(click.ParamType[float | str]):
    """A factor above 0, or ``max``."""

    name = "speed"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str:
        """Return the factor, or ``max``; fail for anything else."""
        if value == "max":
            return "max"
        try:
            speed = float(str(value).removesuffix("x"))
        except ValueError:
            speed = 0.0
        if not 0 < speed <= 1000:
            self.fail(f"{value!r} is neither a factor above 0, up to 1000, nor 'max'", param, ctx)
        return speed


@click.command("replay", epilog=_REPLAY_EPILOG, short_help="Replay a recording on other storage.")
@click.argument("recording", metavar="FILE", type=click.Path(path_type=Path, readable=False))
@click.option("--to", "target", required=True, metavar="TARGET", help="Where requests are sent.")
@click.option(
    "--speed",
    type=SpeedType(),
    default="1",
    show_default=True,
    metavar="FACTOR",
    help="Speed relative to the recording, or 'max'.",
)
@click.option("--device", metavar="NAME", help="Only requests of this recorded device.")
@click.option("--size", metavar="SIZE", help="Size of the trial file, or part of the device used.")
@click.option(
    "--rounds",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Number of replays.",
)
@click.option(
    "--depth",
    type=int,
    default=256,
    show_default=True,
    help="Maximum number of requests in flight.",
)
@click.option("--seconds", type=float, metavar="SECONDS", help="End each round after this time.")
@click.option("--buffered", is_flag=True, help="Use the page cache.")
@engine_option
@measuring_options
def replay(
    *,
    recording: Path,
    target: str,
    speed: float | str,
    device: str | None,
    size: str | None,
    rounds: int,
    depth: int,
    seconds: float | None,
    buffered: bool,
    engine: str,
    measuring: MeasureOptions,
) -> int:
    """Send the requests of the recording FILE to TARGET, in their order.

    TARGET is a directory, file or block device, or `null`. With a speed factor, requests are sent
    at their recorded times and latency counts from these; at `max`, each waits for as many
    completions as in the recording. The result is a run like any other: show, compare and export
    it.
    """
    from seatrial.cli.study_command import plan_for, show_or_measure  # noqa: PLC0415
    from seatrial.study.load import study_from_options  # noqa: PLC0415

    workload: dict[str, object] = {
        "kind": "recording",
        "file": str(recording.absolute()),
        "speed": speed,
        "device": device,
        "depth": depth,
        "seconds": seconds,
        "direct": not buffered,
        "engine": engine,
    }
    study = {
        "name": "recording",
        "rounds": {"min": rounds, "max": rounds},
        "target": [target_mapping(target, None, size)],
        "workload": [without_none(workload)],
    }
    return show_or_measure(plan_for(study_from_options(study)), measuring)


EPILOG = """\b
Examples:
  seatrial trace show pgbench.rec
  seatrial trace show pgbench.rec --output load.html
  seatrial trace import sda.blktrace.0 -o sda.rec
  seatrial trace replay pgbench.rec --to /mnt/new
  seatrial trace study pgbench.rec -o pgbench.toml
  seatrial trace compare pgbench.rec last
  seatrial trace store pgbench.rec               as a run, if it was cut off

\b
`seatrial watch --record FILE` makes a recording (docs/recording.md). See docs/load.md.
"""

IMPORT_EPILOG = """\b
Examples:
  seatrial trace import sda.blktrace.0 -o sda.rec     all processors' files
  seatrial trace import web_0.csv.gz -o web.rec       MSR Cambridge
  seatrial trace import io.log --format fio-iolog -o fio.rec

\b
docs/load.md lists the formats and what each does not contain.
"""

STORE_EPILOG = """\b
Examples:
  seatrial trace store night.rec --label "until the crash"
  seatrial compare last RUN
"""

STUDY_EPILOG = """\b
Examples:
  seatrial trace study pgbench.rec -o pgbench.toml
  seatrial study pgbench.toml --target /mnt/new

\b
How close it is: run the study, then `seatrial trace compare pgbench.rec last`.
"""

COMPARE_EPILOG = """\b
Examples:
  seatrial trace compare pgbench.rec last        with a run of `seatrial trace study`
  seatrial trace compare before.rec after.rec --json
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
    type=OutputPath(RECORDING),
    help="The recording to write.",
)


@click.group("trace", epilog=EPILOG)
def command() -> None:
    """Analyse recorded block requests, and replay them on other storage."""


@command.command("show", epilog=SHOW_EPILOG, short_help="Show what kind of load a recording is.")
@click.argument("recording", metavar="FILE", type=click.Path(path_type=Path, readable=False))
@output_option("-o", "--output", about="Also write the report, with charts, as an HTML page.")
@json_option
def show(*, recording: Path, output: Output, as_json: bool) -> int:
    """Show what kind of load the recording FILE is.

    Operations, sizes, sequential runs, distinct bytes and working sets, reuse by size of cache,
    burstiness, requests in flight, latencies; by table, process and device where known.
    """
    from seatrial.trials.watch.analysis.load.profile import load_of  # noqa: PLC0415
    from seatrial.trials.watch.recording import read  # noqa: PLC0415
    from seatrial.trials.watch.report import load_phrases  # noqa: PLC0415

    found = read(recording)
    load = load_of(found)
    next_step = next_step_of(recording, output)
    if output.is_named:
        from seatrial.trials.watch.report.load_page import render  # noqa: PLC0415

        again = f"seatrial trace show {recording} --output FILE"
        output.write(render(recording.name, found, load, next_step), otherwise=again)
    if as_json:
        from seatrial.trials.watch.documents import RecordingDocument  # noqa: PLC0415

        document = RecordingDocument(
            about=found.about,
            verdict=load_phrases.kind_line(load),
            notable=load_phrases.notable(load),
            doubts=load_phrases.doubts(load, found.about),
            load=load,
        )
        click.echo(document.as_text(), nl=False)
    else:
        from seatrial.trials.watch.report.load_text import load_text  # noqa: PLC0415

        click.echo(load_text(load, found.about, next_step))
        if found.about.is_cut_off and found.about.knows_device:
            click.echo(f"As a run, until it was cut off: `seatrial trace store {recording}`")
    return 0


@command.command(
    "import", epilog=IMPORT_EPILOG, short_help="Convert another program's trace to a recording."
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
@label_option
@results_option
def import_(
    *, trace: Path, trace_format: str, output: Path, force: bool, label: str, results: Path
) -> int:
    """Read FILE, a trace of another program, into a recording.

    blktrace, fio's write_iolog, the traces of MSR Cambridge, Alibaba, Tencent, CloudPhysics
    (vscsi), SPC/UMass, ARC and libCacheSim; compressed by gzip or not. Values that a
    format lacks stay unknown. If it has latencies, the recording is also stored as a run.
    """
    from seatrial.trials.watch.recording import read_about  # noqa: PLC0415
    from seatrial.trials.watch.report.import_text import import_text  # noqa: PLC0415

    path = writable_trace_path(output, force=force, kind=RECORDING)
    wanted = None if trace_format == "auto" else trace_format
    with keeping_owner(path), native_errors():
        found, requests, total_bytes, files = _core.import_recording(trace, wanted, path)
    about = read_about(path)
    click.echo(import_text(found, requests, total_bytes, files, about))
    if about.knows_device:
        click.echo(store_run(path, results, label=label))
    click.echo(f"Load:  seatrial trace show {output}")
    return 0


@command.command("store", epilog=STORE_EPILOG, short_help="Store a recording as a run.")
@click.argument("recording", metavar="FILE", type=click.Path(path_type=Path, readable=False))
@label_option
@results_option
def store(*, recording: Path, label: str, results: Path) -> int:
    """Store the recording FILE as a run of the results file.

    `seatrial watch --record` and `seatrial trace import` do so automatically. This is for a
    recording that was cut off, and for another results file.
    """
    click.echo(store_run(recording, results, label=label))
    return 0


@command.command("study", epilog=STUDY_EPILOG, short_help="Write a study that imitates a load.")
@click.argument("recording", metavar="FILE", type=click.Path(path_type=Path, readable=False))
@output_option("-o", "--output", about="The study to write, such as pgbench.toml.", is_all=True)
def study(*, recording: Path, output: Output) -> int:
    """Write a study that imitates the recording FILE, and list what it imitates.

    It imitates operations, sizes, the share of sequential requests, the working set and the rate.
    Without --output the study is printed.
    """
    from seatrial.trials.watch.report.imitation_text import (  # noqa: PLC0415 - not for --help
        imitation_text,
        study_text,
    )

    found = _imitation(recording)
    text = study_text(found, recording.name)
    if not output.is_named:
        click.echo(text, nl=False)
        return 0
    output.write(text, otherwise=f"seatrial trace study {recording} -o FILE")
    click.echo(imitation_text(found))
    if output.stream is None:
        click.echo(f"Next: `seatrial study {output.path} --target DIR`, which measures it; then")
        click.echo(f"`seatrial trace compare {recording} last` shows how close it came.")
    return 0


def _imitation(recording: Path) -> Imitation:
    """Return a study that imitates a recording.

    Raises:
        UsageError: if it has nothing that a study could imitate, or cannot be read.
    """
    from seatrial.trials.watch.analysis.load.imitation import imitation_of  # noqa: PLC0415
    from seatrial.trials.watch.analysis.load.profile import load_of  # noqa: PLC0415
    from seatrial.trials.watch.analysis.load.streams import streams_of  # noqa: PLC0415
    from seatrial.trials.watch.recording import read  # noqa: PLC0415

    recorded = read(recording)
    found = imitation_of(load_of(recorded), recording.stem, streams_of(recorded))
    if found is None:
        raise UsageError(
            seen=f"{recording} has no reads and writes that a study could imitate",
            cause="It is empty, or has only flushes or the like, or parts of sectors",
            next_step=f"See what it has with `seatrial trace show {recording}`",
        )
    return found


@command.command("compare", epilog=COMPARE_EPILOG, short_help="Compare a load with its imitation.")
@click.argument("first", metavar="A", type=click.Path(path_type=Path, readable=False))
@click.argument("second", metavar="B")
@results_option
@json_option
def compare(*, first: Path, second: str, results: Path, as_json: bool) -> int:
    """Compare the load of the recording A with B: rate, mix, sizes, addresses, latencies.

    B is another recording, or a run of the results file, such as `last`: then the rate, the mix and
    the latencies of its only test are compared.
    """
    from seatrial.trials.watch.analysis.load.comparison import (  # noqa: PLC0415 - not for --help
        compared,
        figures_of,
        figures_of_run,
        sizes_in_common,
    )
    from seatrial.trials.watch.analysis.load.profile import load_of  # noqa: PLC0415
    from seatrial.trials.watch.recording import read  # noqa: PLC0415

    load = load_of(read(first))
    if is_parquet(Path(second)):
        other = load_of(read(Path(second)))
        figures = [*compared(figures_of(load), figures_of(other)), sizes_in_common(load, other)]
    else:
        figures = compared(figures_of(load), figures_of_run(_only_test(second, results)))
    name = Path(second).name
    if as_json:
        from seatrial.trials.watch.documents import LoadsDocument  # noqa: PLC0415

        click.echo(LoadsDocument(a=str(first), b=second, figures=figures).as_text(), nl=False)
    else:
        from seatrial.trials.watch.report.imitation_text import comparison_text  # noqa: PLC0415

        click.echo(comparison_text(first.name, name, figures))
    return 0


def _only_test(reference: str, results: Path) -> list[Sample]:
    """Return the samples of a run's only test of reads and writes, apart from filling.

    Raises:
        UsageError: if there is no such run, or it has several tests.
    """
    from seatrial.cli.sources import load_source  # noqa: PLC0415 - not for --help

    found = load_source(reference, results).samples
    samples = [each for each in found if each.cell.kind != "fill"]
    keys = {each.cell.key for each in samples}
    if len(keys) != 1:
        raise UsageError(
            seen=f"{reference} has {len(keys)} tests, not counting fills",
            cause="A recording is compared with a run that imitates it, which has one test",
            next_step=f"Run a study of `seatrial trace study`, or see `seatrial show {reference}`",
        )
    return samples


def next_step_of(recording: Path, output: Output) -> str:
    """Return the next step with a recording: view its charts, then imitate it."""
    if output.path is not None:
        return f"Imitate it elsewhere: `seatrial trace study {recording} -o study.toml`"
    return f"See it over time: `seatrial trace show {recording} --output load.html`"


command.add_command(replay)
