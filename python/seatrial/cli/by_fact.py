"""``seatrial compare --by FACT``: runs of many machines side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from seatrial.cli.compare_command import side_differences
from seatrial.cli.sources import is_results_file, load_source
from seatrial.errors import UsageError
from seatrial.report.by_fact import FactDocument, common_rows, fact_sentences, fact_table
from seatrial.report.terminal import table_text, wrapped
from seatrial.results.model import Run, Sample
from seatrial.results.store import ResultsFile
from seatrial.stats.compare.by_fact import Grouping
from seatrial.stats.compare.figures import is_wanted
from seatrial.stats.compare.model import Side, SideSamples
from seatrial.stats.compare.pairing import match, require_suited
from seatrial.stats.timeline import SLICES_MIN
from seatrial.stats.wording import format_plural

ROWS_SHOWN_MAX: Final = 120


def compare_by_fact(
    fact: str,
    references: Sequence[str],
    results: Path,
    *,
    figures: Sequence[str],
    anyway: bool,
    as_json: bool,
) -> int:
    """Print runs grouped by a fact, and return the exit code.

    Args:
        fact: ``host``, ``kernel``, ``drive`` or ``firmware``.
        references: Runs, or results files for all their runs; if empty all runs of ``results``.
        results: The results file.
        figures: Names of figures; all if empty.
        anyway: Whether what should not be compared is compared with a warning.
        as_json: Whether a JSON document is printed.

    Raises:
        ResultsFileError: A results file cannot be read.
        UsageError: A reference fits nothing, runs have no common test or figure, or should not be
            compared.
    """
    grouping = Grouping(fact, figures or None)
    firsts: list[SideSamples] = []  # one of each set of tests
    warnings: dict[str, None] = {}
    count = 0
    for run, samples in _measured(references, results):
        for one_side in _sides(run, samples):
            warnings |= dict.fromkeys(_warnings(firsts, one_side, anyway=anyway))
            grouping.add(one_side, side_differences(firsts[0], one_side))
            count += 1
    found = grouping.result()
    unknown = [name for name in figures if not any(is_wanted(r.figure, [name]) for r in found.rows)]
    if unknown or not found.rows:
        raise _nothing(count, unknown)
    if as_json:
        click.echo(FactDocument(by_fact=found, warnings=list(warnings)).as_text(), nl=False)
        return 0
    common = len(common_rows(found))
    if common:
        click.echo(table_text(fact_table(found, ROWS_SHOWN_MAX)))
    if common > ROWS_SHOWN_MAX:
        left_out = common - ROWS_SHOWN_MAX
        click.echo(f"{left_out:,} more rows: --json has all of them, --figure selects some.\n")
    if alone := len(found.rows) - common:
        rows = format_plural(alone, "figure")
        click.echo(wrapped(f"{rows} known for only one {fact}: see --json.\n"))
    for sentence in [*warnings, *fact_sentences(found)]:
        click.echo(wrapped(sentence))
    return 0


def _warnings(firsts: list[SideSamples], one_side: SideSamples, *, anyway: bool) -> list[str]:
    """Return why a side should not be compared with an earlier one of the same tests.

    If there is none, this side is the first of its tests.
    """
    for first in firsts:
        try:
            matched = match(first, one_side)
        except UsageError:
            continue
        return require_suited(first, one_side, matched, anyway=anyway)
    firsts.append(one_side)
    return []


def _measured(references: Sequence[str], results: Path) -> Iterator[tuple[Run, list[Sample]]]:
    """Yield each requested run once, with its samples."""
    known: set[str] = set()
    for reference in references or [str(results)]:
        if not references or is_results_file(Path(reference)):
            sources = _complete(Path(reference))
        else:
            source = load_source(reference, results, slices_min=SLICES_MIN)
            sources = iter([(source.run, source.samples)])
        for run, samples in sources:
            if run.id not in known:
                known.add(run.id)
                yield run, samples


def _complete(path: Path) -> Iterator[tuple[Run, list[Sample]]]:
    with ResultsFile.open(path, read_only=True) as store:
        for run_id in store.run_ids():
            run = store.run(run_id)
            if run.status == "complete":
                yield run, store.samples(run_id, slices_min=SLICES_MIN)


def _sides(run: Run, samples: Sequence[Sample]) -> Iterator[SideSamples]:
    for label in dict.fromkeys(sample.cell.target for sample in samples):
        side = Side(name=run.label or run.id, run=run, target=label)
        own = [sample for sample in samples if sample.cell.target == label]
        yield SideSamples(side=side, samples=own)


def _nothing(count: int, figures: Sequence[str]) -> UsageError:
    if figures and count:
        return UsageError(
            seen=f"These runs have no figure {' or '.join(map(repr, figures))}",
            cause="No figure has this name, or too few requests completed to compute it",
            next_step="Leave out --figure to see all that are known",
        )
    return UsageError(
        seen="There is no complete run with a figure to compare",
        cause="The results file is empty, or its runs were interrupted",
        next_step="List the runs with `seatrial list`, and name those to compare",
    )
