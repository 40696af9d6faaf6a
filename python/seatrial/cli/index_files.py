"""``seatrial report --all``: the index of a results file and a page per run, as files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial.cli.files import Output
from seatrial.cli.outcome import REPORTS, earlier_in
from seatrial.errors import UsageError
from seatrial.findings.ranks import RUNS_MAX
from seatrial.results.model import Run, Sample
from seatrial.results.store import ResultsFile
from seatrial.stats.timeline import SLICES_MIN

if TYPE_CHECKING:
    from seatrial.report.index_page import IndexEntry

INDEX = "index.html"
_BEGINNING_LETTERS: Final = 16384
"""So much of a page holds its title."""


class IndexFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files of an index.

    Attributes:
        index: The index itself.
        pages: Pages of each run, by id.
        comparisons: Comparisons of consecutive runs of one study, target and host.
        written: How many of pages and comparisons were written now; the others were up to date.
    """

    index: Path
    pages: dict[str, Path]
    comparisons: list[Path]
    written: int


def write_index(
    results: Path, folder: Path | None, *, profile: str = "", force: bool = False
) -> IndexFiles:
    """Write the index of a results file, and those pages of its runs that are not up to date.

    Args:
        results: The results file.
        folder: Where the files go; ``seatrial-reports`` next to the results file if None.
        profile: Name or file of the profile that grades the runs; empty for none.
        force: Whether all pages are written again.

    Raises:
        RefusedError: when a file would be overwritten that is not a report of Seatrial.
        ResultsFileError: when the results file cannot be read.
        UsageError: when the files cannot be written.
    """
    from seatrial.report.index_page import (  # noqa: PLC0415 - not for --help
        Links,
        entry_of,
        neighbours,
        render_index,
    )

    output_folder = folder or results.parent / REPORTS
    pages: dict[str, Path] = {}
    written = 0
    with ResultsFile.open(results, read_only=True) as store:
        make_folder(output_folder)
        entries: list[IndexEntry] = []
        runs_stored = store.runs()
        # Consecutive runs are ranked among nearly the same runs.
        samples_of = lru_cache(RUNS_MAX + 1)(partial(store.samples, slices_min=SLICES_MIN))
        for run in runs_stored:
            samples = store.samples(run.id)
            entries.append(entry_of(run, samples, profile))
            pages[run.id] = page = output_folder / f"{run.id}.html"
            is_kept = not force and _is_graded(page, run, profile)
            earlier = partial(earlier_in, runs_stored, run, samples_of)
            made = partial(page_of, run, samples, profile, earlier)
            written += _write(page, made, run, force=not is_kept)
        runs = {each.run.id: each.run for each in entries}
        comparisons = []
        for later, before in neighbours(entries).items():
            pair = (before.run, runs[later])
            comparisons.append(output_folder / comparison_name(before.run.id, later))
            made = partial(comparison_of, store, *pair)
            written += _write(comparisons[-1], made, *pair, force=force)
    links = Links(page=lambda run_id: f"{run_id}.html", comparison=comparison_name)
    index = output_folder / INDEX
    text = render_index(entries, results.name, links)
    Output(path=index).write(text, otherwise="seatrial report --all --output DIR")
    return IndexFiles(index=index, pages=pages, comparisons=comparisons, written=written)


def comparison_name(earlier: str, later: str) -> str:
    """Return the name of the file that compares two runs."""
    return f"compare-{earlier}-{later}.html"


def comparison_of(store: ResultsFile, earlier: Run, later: Run) -> str:
    """Return the page that compares two runs, the earlier one being the reference.

    Runs that should not be compared are compared with warnings.

    Raises:
        ResultsFileError: when the file cannot be read.
        UsageError: when the runs have no test in common.
    """
    from seatrial.cli.compare_command import ComparedSides, compared  # noqa: PLC0415 - heavy
    from seatrial.report.comparison_page import render  # noqa: PLC0415
    from seatrial.stats.compare.model import Side, SideSamples  # noqa: PLC0415
    from seatrial.stats.timeline import SLICES_MIN  # noqa: PLC0415

    names = [run.label or run.id for run in (earlier, later)]
    if names[0] == names[1]:
        names = [earlier.id, later.id]
    first, other = (
        SideSamples(
            side=Side(name=name, run=run, target=""),
            samples=store.samples(run.id, slices_min=SLICES_MIN),
        )
        for name, run in zip(names, (earlier, later), strict=True)
    )
    return render(compared(ComparedSides(first=first, others=[other]), anyway=True))


def page_of(
    run: Run,
    samples: Sequence[Sample],
    profile: str,
    earlier: Callable[[], Sequence[Sequence[Sample]]],
) -> str:
    """Return the report of a run.

    Args:
        run: The run.
        samples: Its samples.
        profile: Name or file of the profile that grades its figures; empty for none.
        earlier: Reads the samples of the runs that its figures are ranked among without a profile.
    """
    from seatrial.findings.summary import summarise  # noqa: PLC0415 - only for pages to write
    from seatrial.report.page import render  # noqa: PLC0415
    from seatrial.report.tables import tables  # noqa: PLC0415

    summary = summarise(run, samples)
    ranked_among = () if profile else earlier()
    return render(summary, tables=tables(summary), profile=profile, earlier=ranked_among)


def _write(path: Path, content: Callable[[], str], *runs: Run, force: bool) -> bool:
    """Write a page unless it is newer than its runs; return whether it was written."""
    if not force and _is_current(path, runs):
        return False
    Output(path=path).write(content(), otherwise="seatrial report --all --output DIR")
    return True


def _is_current(path: Path, runs: tuple[Run, ...]) -> bool:
    try:
        written_at = path.stat().st_mtime
    except OSError:
        return False
    times = [(run.ended_at, run.edited_at) for run in runs]
    return all(
        None is not ended and max(ended, edited or 0.0) < written_at for ended, edited in times
    )


def _is_graded(page: Path, run: Run, profile: str) -> bool:
    """Return whether a page is graded by a profile as it is now; always true without a profile."""
    if not profile:
        return True
    from markupsafe import escape  # noqa: PLC0415 - only for pages that exist

    from seatrial.report.page import title_of  # noqa: PLC0415 - heavy

    try:
        with page.open(encoding="utf-8", errors="replace") as text:
            beginning = text.read(_BEGINNING_LETTERS)
        is_newer = not Path(profile).is_file() or (
            Path(profile).stat().st_mtime < page.stat().st_mtime
        )
    except OSError:
        return False
    return is_newer and f"<title>{escape(title_of(run, profile))}</title>" in beginning


def make_folder(folder: Path) -> None:
    """Create a directory for several files; raises UsageError where it cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            seen=f"The directory {folder} cannot be created: {error.strerror}",
            cause="A file of that name exists, or its parent is read-only or full",
            next_step="Specify another directory with --output",
        ) from None


def refuse_run(runs: Sequence[str], command: str) -> None:
    """Raise UsageError when runs were given where all are meant; ``command`` is without them."""
    if runs:
        named = " ".join(runs)
        raise UsageError(
            seen=f"--all was given together with the run {named}",
            cause="--all means every run of the results file",
            next_step=f"Leave out one of them: `seatrial {command} {named}` or "
            f"`seatrial {command} --all`",
        )
