"""``seatrial import``: results of other tools, and the hardware that their user declares."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from seatrial.cli.options import (
    json_option,
    label_option,
    next_command,
    one_argument,
    results_option,
)
from seatrial.cli.sources import is_results_file
from seatrial.errors import UsageError
from seatrial.report.terminal import wrapped
from seatrial.results.model import Run, origin_of
from seatrial.results.store import ResultsFile
from seatrial.study.units import SIZE_EXPECTED, parse_size_bytes
from seatrial.units import MB

if TYPE_CHECKING:
    from seatrial.fingerprint import Device, PcieLink
    from seatrial.importers import Imported
    from seatrial.importers.fio.jobs import JobStudy
    from seatrial.trials.io.bounds import Declared


DRIVES_MAX: Final = 4096
LANES_MAX: Final = 32

SATA_GB_S: Final = {"sata1": 1.5, "sata2": 3.0, "sata3": 6.0}
SAS_GB_S: Final = {"sas-3g": 3.0, "sas-6": 6.0, "sas-12": 12.0, "sas-24": 22.5}
PCIE_GT_S: Final = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}

_SERIAL: Final = re.compile(r"(1\.5|3|6) ?gb/s", re.IGNORECASE)
_PCIE: Final = re.compile(r"pcie ?([1-6])(?:\.0)? ?x ?([0-9]{1,2})", re.IGNORECASE)
_PLAIN: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?(MB|GB)/s")

LINKS_EXPECTED: Final = (
    "sata2, sata3, 3Gb/s, sas-12, pcie3x4 (generation and lanes), or a rate such as 400MB/s"
)
BUSES_EXPECTED: Final = "such as pcie1x8 (generation and lanes)"


def parse_link(written: str) -> Device | None:
    """Return a drive as far as its link goes; None where no link is named."""
    from seatrial.fingerprint import Device  # noqa: PLC0415 - not for --help

    text = written.strip()
    serial = _SERIAL.fullmatch(text)
    sata_gb_s = float(serial[1]) if serial else SATA_GB_S.get(text.lower())
    if sata_gb_s:
        return Device(transport="sata", sata_link_gb_s=sata_gb_s)
    if text.lower() in SAS_GB_S:
        return Device(transport="sas", sas_link_gb_s=SAS_GB_S[text.lower()], sas_lanes=1)
    bus = parse_bus(text)
    if bus:
        words = f"PCIe {bus.speed_now_gt_s:g} GT/s x{bus.width_now}"
        return Device(transport=words, link_bytes_per_s=bus.bandwidth_now_bytes_per_s)
    plain = _PLAIN.fullmatch(text)
    if plain and float(plain[1]) > 0:
        scale = MB * (1000 if plain[2] == "GB" else 1)
        return Device(transport=text, link_bytes_per_s=float(plain[1]) * scale)
    return None


def parse_bus(written: str) -> PcieLink | None:
    """Return the link of a PCIe slot; None where no slot is named."""
    from seatrial.fingerprint import PcieLink  # noqa: PLC0415 - not for --help
    from seatrial.machine.fingerprint.device import bandwidth_bytes_per_s  # noqa: PLC0415

    slot = _PCIE.fullmatch(written.strip())
    if slot is None or not 0 < int(slot[2]) <= LANES_MAX:
        return None
    speed_gt_s, width = PCIE_GT_S[int(slot[1])], int(slot[2])
    return PcieLink(
        speed_now_gt_s=speed_gt_s,
        width_now=width,
        bandwidth_now_bytes_per_s=bandwidth_bytes_per_s(speed_gt_s, width),
    )


def _parsed(
    parse: Callable[[str], Any], expected: str
) -> Callable[[click.Context, click.Parameter, Any], object]:
    """Return a callback that parses an option, given once or several times."""

    def read_one(written: str) -> object:
        try:
            found = parse(written)
        except ValueError as error:
            raise click.BadParameter(f"{error}; give {expected}") from None
        if found is None:
            raise click.BadParameter(f"{written!r} is invalid; give {expected}")
        return found

    def read(
        _context: click.Context, _parameter: click.Parameter, value: str | tuple[str, ...] | None
    ) -> object:
        if isinstance(value, tuple):
            return tuple(map(read_one, value))
        return None if value is None else read_one(value)

    return read


def _size_option(
    name: str, parameter: str, what: str
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    callback = _parsed(parse_size_bytes, SIZE_EXPECTED)
    return click.option(name, parameter, metavar="SIZE", callback=callback, help=what)


_OPTIONS: Final = (
    click.option(
        "--drives",
        type=click.IntRange(1, DRIVES_MAX),
        help="Number of drives, with --link.",
    ),
    click.option(
        "--link",
        metavar="LINK",
        callback=_parsed(parse_link, LINKS_EXPECTED),
        help=f"Link of each drive: {LINKS_EXPECTED}.",
    ),
    click.option(
        "--bus",
        "buses",
        metavar="SLOT",
        multiple=True,
        callback=_parsed(parse_bus, BUSES_EXPECTED),
        help=f"Slot of the controller, {BUSES_EXPECTED}; once for each controller.",
    ),
    _size_option("--controller-cache", "controller_cache_bytes", "Memory of the controller."),
    _size_option("--memory", "memory_bytes", "Memory of the machine that measured."),
    _size_option("--file-size", "file_bytes", "Size of the file or range under test."),
)


def _declared(
    *,
    drives: int | None,
    link: Device | None,
    **more: Any,  # noqa: ANN401 - as click takes them
) -> Declared:
    """Return the hardware; raises UsageError for drives without a link, or the reverse."""
    from seatrial.fingerprint import Device  # noqa: PLC0415 - not for --help
    from seatrial.trials.io.bounds import Declared  # noqa: PLC0415

    if (drives is None) != (link is None):
        raise _incomplete(drives)
    return Declared(drives=drives, link=link or Device(), **more)


declaring_options = one_argument(
    "declared",
    ("drives", "link", "buses", "controller_cache_bytes", "memory_bytes", "file_bytes"),
    _declared,
    *reversed(_OPTIONS),
)
"""Adds the options that describe the hardware; they arrive as one ``declared``."""


def _incomplete(drives: int | None) -> UsageError:
    """Return the error for drives without a link, or a link without drives."""
    given, missing = ("--drives", "--link") if drives else ("--link", "--drives")
    return UsageError(
        seen=f"{given} is given without {missing}",
        cause="The bandwidth of all links follows from the number of drives and the link of each",
        next_step="Give both, such as --drives 4 --link sata2",
    )


EPILOG = """\b
Examples:
  seatrial import fio.json --label old-array     what fio --output-format=json+ wrote
  seatrial import bm-flash.txt --drives 4 --link sata2
                                                 its printed tables, and the link of the drives
  seatrial import sizes.csv                      columns size, threads, iops (docs/importers.md)
  seatrial import other.seatrial third.seatrial  the runs of other machines' results files
  seatrial import pgbench_log.*                  what pgbench --log wrote, all threads and runs
  seatrial import jobs.fio > study.toml          a job file of fio as a study, to be edited
  seatrial audit fio.json                        look at a file without storing it

\b
The format is recognised by the content. docs/importers.md says what is read from each.
"""


@click.command("import", epilog=EPILOG)
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@label_option
@declaring_options
@results_option
@json_option
def command(
    *, files: tuple[Path, ...], label: str, declared: Declared, results: Path, as_json: bool
) -> int:
    """Store results of other tools or machines, so that every command works on them.

    FILE is fio's JSON or JSON+, a log of fio, the printed tables of bm-flash, CSV, or a log of
    pgbench, of which several may be given. If FILE is a results file of Seatrial, all runs that are
    not yet in --results are copied; several may be given. Hardware that FILE does not describe can
    be declared with --drives, --link, --bus and so on. A job file of fio contains no results: the
    equivalent study is printed.
    """
    from seatrial.cli.outcome import answered_text, echo_paths  # noqa: PLC0415
    from seatrial.findings.summary import summarise  # noqa: PLC0415 - loads the analysis
    from seatrial.importers import read_jobs, read_results  # noqa: PLC0415
    from seatrial.report.exports import json_document  # noqa: PLC0415
    from seatrial.trials.io.bounds import Declared, with_declared  # noqa: PLC0415

    if any(is_results_file(each) for each in files):
        from seatrial.cli.runs_command import merge_files  # noqa: PLC0415 - only for these

        _require_results_files(files, is_described=bool(label) or declared != Declared())
        return merge_files(files, results, skip_existing=True, as_json=as_json)
    if len(files) == 1 and (jobs := read_jobs(files[0])):
        click.echo(_study_text(jobs), nl=False)
        return 0
    read = read_results(*files)
    run, samples = with_declared(read.run, read.samples, declared)
    run = msgspec.structs.replace(run, label=label)
    imported = _stored(msgspec.structs.replace(read, run=run, samples=samples), results)
    summary = summarise(imported.run, imported.samples)
    if as_json:
        click.echo(json_document.render(summary), nl=False)
        return 0
    click.echo(f"{answered_text(summary)}\n{origin_text(imported.run)}", nl=False)
    click.echo(f"Stored as run {imported.run.id}")
    echo_paths(imported.run, results, None)
    return 0


def _require_results_files(files: Sequence[Path], *, is_described: bool) -> None:
    """Raise UsageError where results files are mixed with others, or described by options."""
    others = [each for each in files if not is_results_file(each)]
    if others:
        raise UsageError(
            seen=f"{others[0]} is not a results file of Seatrial, but another of the files is",
            cause="Runs of results files are copied as they are; other results become a new run",
            next_step="Import them one by one",
        )
    if is_described:
        raise UsageError(
            seen="A label or hardware was given for the runs of a results file",
            cause="These runs have their own label and fingerprint",
            next_step="Leave out the option; `seatrial runs rename RUN LABEL` gives a run a label",
        )


def _study_text(jobs: JobStudy) -> str:
    """Return the study of a job file as TOML, with its differences as comments above it."""
    from seatrial.importers.toml_text import toml_text  # noqa: PLC0415 - only here
    from seatrial.study.load import study_from_mapping  # noqa: PLC0415

    study_from_mapping(jobs.mapping, "the job file")
    comments = "".join(f"# {note}.\n" for note in jobs.notes)
    return f"{comments}\n{toml_text(jobs.mapping)}" if comments else toml_text(jobs.mapping)


def _stored(imported: Imported, results: Path) -> Imported:
    """Return the run as it was stored.

    Raises:
        UsageError: The results file holds it already.
        ResultsFileError: The results file cannot be used.
    """
    run = imported.run
    with ResultsFile.open(results, create=True) as store:
        if any(stored.id == run.id for stored in store.runs()):
            raise UsageError(
                seen=f"{results} already contains this file, as run {run.id}",
                cause="The same content with the same time was imported before",
                next_step=f"Look at it with `{next_command('show', run.id, results=results)}`",
            )
        store.add_run(run, imported.samples)
        samples = store.samples(run.id)
    return msgspec.structs.replace(imported, samples=samples)


def origin_text(run: Run) -> str:
    """Return the source of an imported run and what could not be taken over; else nothing."""
    origin = origin_of(run)
    if origin is None:
        return ""
    lines = [wrapped(f"Imported from {origin.file} ({origin.format}, {origin.tool}).")]
    if origin.blank_cells:
        blank = len(origin.blank_cells)
        lines.append(f"{blank} of its tests {'is' if blank == 1 else 'are'} blank.")
    lines += [wrapped(note, "   ") for note in origin.notes]
    return "\n".join(lines) + "\n"
