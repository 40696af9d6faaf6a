"""``seatrial compare``: the results that a user names, compared, and shown on a terminal."""

from __future__ import annotations

import gc
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from seatrial.cli.display_options import answer_options, display_options
from seatrial.cli.files import Output, output_option
from seatrial.cli.options import (
    FiniteRange,
    complete_runs,
    json_option,
    results_option,
    this_command,
)
from seatrial.cli.sources import NamedResult, load_source
from seatrial.errors import EXIT_THRESHOLD, UsageError
from seatrial.findings.registry import find_in_comparison
from seatrial.machine.fingerprint.whole import differences
from seatrial.report.comparison_page import (
    comparison_table,
    differences_table,
    overall_table,
    shortened,
)
from seatrial.report.terminal import finding_text, table_text, wrapped
from seatrial.results.model import Run, Sample, origin_of
from seatrial.stats.compare.comparison import MARGIN_SHARE_DEFAULT, compare
from seatrial.stats.compare.figures import PERCENTILES, RATES, is_wanted
from seatrial.stats.compare.fingerprints import described, facts_of, named_alike, with_defaults
from seatrial.stats.compare.model import Comparison, Difference, Side, SideSamples
from seatrial.stats.compare.noise import control_label
from seatrial.stats.compare.verdict import (
    distance_share,
    judged,
    losses,
    noise_phrase,
    ratio_phrase,
)
from seatrial.stats.set_up import FACTS
from seatrial.stats.timeline import SLICES_MIN
from seatrial.stats.wording import format_identity, format_plural

EPILOG = """\b
Examples:
  seatrial compare before after            two runs, by label
  seatrial compare last                    the targets of one run, against its first
  seatrial compare last:ssd last:hdd       two targets of one run
  seatrial compare raid0.json raid5.json --anyway
  seatrial compare main pull-request --fail-if-slower 5
  seatrial compare --by drive              all runs, a column per model of drive
  seatrial compare --by kernel a.seatrial b.seatrial --figure iops

\b
Rounds are compared in pairs if both sides were measured interleaved, as targets of one study.
Interval, answer and adjustment for many tests: docs/method.md, "Comparison".
"""


@click.command("compare", epilog=EPILOG)
@click.argument("sides", nargs=-1, metavar="A [B ...]", shell_complete=complete_runs)
@click.option(
    "--by",
    "fact",
    type=click.Choice(list(FACTS)),
    help="Group runs by this fact of their machine: a column per value, a row per test. Then A, B "
    "... are runs or results files; all complete runs if none is named.",
)
@click.option(
    "--figure",
    "figures",
    multiple=True,
    metavar="NAME",
    help="Only these: iops, tps, bandwidth, p50, p99, or of one kind, such as 'read p99'. Fewer "
    "figures need fewer rounds.",
)
@click.option(
    "--margin",
    "margin_percent",
    type=FiniteRange(0, 90, min_open=True),
    default=5.0,
    show_default=True,
    metavar="PERCENT",
    help="Differences significantly smaller than this count as none.",
)
@click.option(
    "--aa",
    "control",
    metavar="RESULT",
    help="A/A control, a second measurement of A; differences smaller than between these two are "
    "not called real.",
)
@click.option(
    "--fail-if-slower",
    "slower_percent",
    type=FiniteRange(0, 1000),
    metavar="PERCENT",
    help="Exit code 3 if something is significantly slower, by more than this.",
)
@click.option("--anyway", is_flag=True, help="Compare even what is not comparable; only warn.")
@output_option("--report", about="Write an HTML page of the comparison as well.")
@answer_options
@results_option
@json_option
def command(
    *,
    sides: tuple[str, ...],
    fact: str | None,
    figures: tuple[str, ...],
    margin_percent: float,
    control: str | None,
    slower_percent: float | None,
    anyway: bool,
    report: Output,
    results: Path,
    as_json: bool,
) -> int:
    """Compare B, C ... with A: how the set-ups and figures differ, and whether that is real.

    A result is a run (last, an id or its beginning, a label), RUN:TARGET, or a file: a results
    file, a fio JSON, a bm-flash table, a CSV. An existing file takes precedence
    over a label. Given a single run, its targets are compared.
    """
    from seatrial.cli.outcome import first_text  # noqa: PLC0415
    from seatrial.findings.comparison_answer import comparison_answer  # noqa: PLC0415
    from seatrial.report.comparison_page import ComparisonDocument  # noqa: PLC0415

    # Millions of small objects live to the end, none of them in a reference cycle: the collector's
    # search for cycles would take a quarter of the time.
    gc.disable()
    if fact is not None:
        from seatrial.cli.by_fact import compare_by_fact  # noqa: PLC0415

        _require_only_by(control=control, slower_percent=slower_percent, report=report)
        return compare_by_fact(
            fact, sides, results, figures=figures, anyway=anyway, as_json=as_json
        )
    _require_sides(sides)
    found = compared(
        sides_of(sides, results, control),
        margin_share=margin_percent / 100,
        figures=figures or None,
        anyway=anyway,
    )
    slow = [
        reported
        for each in found
        if slower_percent is not None and (reported := slower_than(each, slower_percent / 100))
    ]
    if report.is_named:
        _write_report(found, report)
    if as_json:
        document = ComparisonDocument(a=found[0].a, comparisons=found)
        click.echo(document.as_text(), nl=False)
    else:
        rest = (
            "\n".join(comparison_text(each) for each in found) if display_options().tables else ""
        )
        click.echo(first_text(comparison_answer(found), rest), nl=False)
        if not (rest or display_options().quiet):
            click.echo("More:   add --tables for limitations and each test")
        for reported in slow if not display_options().quiet else []:
            click.echo(f"Slower by more than {slower_percent:g} %: {reported}.")
        if report.path and not display_options().quiet:
            click.echo(f"Report: {click.format_filename(report.path)}")
    return EXIT_THRESHOLD if slow else 0


def _require_sides(sides: Sequence[str]) -> None:
    """Raise click.UsageError where nothing is named."""
    if not sides:
        raise click.UsageError("Missing argument 'A [B ...]'; only --by needs none.")


def _require_only_by(*, control: str | None, slower_percent: float | None, report: Output) -> None:
    """Raise UsageError where an option was given that --by does not support."""
    given = {"--aa": control, "--fail-if-slower": slower_percent, "--report": report.path}
    named = [name for name, value in given.items() if value is not None]
    if named:
        raise UsageError(
            seen=f"{named[0]} was given together with --by",
            cause="--by puts groups of runs side by side; it pairs no rounds and has no page",
            next_step="Leave out one of them, or compare two runs: `seatrial compare A B`",
        )


def _write_report(found: list[Comparison], report: Output) -> None:
    from seatrial.report.comparison_page import render  # noqa: PLC0415 - its parts are large

    again = this_command("--report", "FILE", without=["--report"])
    report.write(render(found), otherwise=again)


ROWS_SHOWN_MAX: Final = 120


class ComparedSides(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be compared.

    Attributes:
        first: The reference side.
        others: What is compared with it, at least one.
        control: The first one measured once more; None if absent.
    """

    first: SideSamples
    others: list[SideSamples]
    control: SideSamples | None = None


def sides_of(references: Sequence[str], results: Path, control: str | None = None) -> ComparedSides:
    """Return the sides that a user names.

    Args:
        references: One run with several targets, or at least two results.
        results: The results file that runs are sought in.
        control: A/A control, a second measurement of the first reference.

    Raises:
        ResultsFileError: When a results file cannot be read.
        UsageError: When a reference fits nothing, a run alone has one target, or two sides are
            the same, of which the control is one.
    """
    sources = [load_source(each, results, slices_min=SLICES_MIN) for each in references]
    if len(sources) == 1:
        found = of_targets(sources[0].run, sources[0].samples)
        if found is None:
            raise _nothing_to_compare_with(sources[0])
    else:
        first, *others = map(_side, sources, _names(sources))
        found = ComparedSides(first=first, others=others)
    if control is not None:
        again = load_source(control, results, slices_min=SLICES_MIN)
        (name,) = _names([again])
        found = msgspec.structs.replace(found, control=_side(again, name))
    _require_distinct([found.first, *found.others, *([found.control] if found.control else [])])
    return found


def _side(source: NamedResult, name: str) -> SideSamples:
    side = Side(name=name, run=source.run, target=source.target)
    return SideSamples(side=side, samples=source.samples)


def _names(sources: Sequence[NamedResult]) -> list[str]:
    """Return what to call each side: short, unless several would be called the same."""
    short = [_short_name(source) for source in sources]
    return [
        name if short.count(name) == 1 else source.name
        for name, source in zip(short, sources, strict=True)
    ]


def _short_name(source: NamedResult) -> str:
    """Return the label of a run that was named by its id, or a file's name without its folder."""
    if source.name == "last" or source.run.id.startswith(source.name):
        return source.run.label or source.run.id
    origin = origin_of(source.run)
    if origin is None or source.run.label:
        return source.name
    stem = Path(origin.file).stem
    return f"{stem}:{source.target}" if source.target else stem


def of_targets(run: Run, samples: Sequence[Sample]) -> ComparedSides | None:
    """Return the targets of a run as sides, the first being the reference; None if it has one.

    A target with the path of the first one, or its label with ``-aa``, is the A/A control.
    """
    labels = list(dict.fromkeys(sample.cell.target for sample in samples))
    declared = [target.get("label", "trial") for target in run.study.get("target", [])]
    labels.sort(key=lambda label: declared.index(label) if label in declared else len(declared))
    paths = {target.get("label"): target.get("path", "") for target in run.study.get("target", [])}
    control = control_label(labels, [paths.get(label, "") for label in labels]) if labels else ""
    sides = {
        label: SideSamples(
            side=Side(name=label, run=run, target=label),
            samples=[sample for sample in samples if sample.cell.target == label],
        )
        for label in labels
    }
    others = [sides[label] for label in labels[1:] if label != control]
    if not others and control:
        return ComparedSides(first=sides[labels[0]], others=[sides[control]])
    if not others:
        return None
    return ComparedSides(first=sides[labels[0]], others=others, control=sides.get(control))


def _require_distinct(sides: Sequence[SideSamples]) -> None:
    seen: dict[tuple[str, frozenset[str]], str] = {}
    for each in sides:
        key = (each.side.run.id, frozenset(sample.cell.target for sample in each.samples))
        if key in seen:
            raise UsageError(
                seen=f"{seen[key]} and {each.side.name} are the same result",
                cause="A result does not differ from itself",
                next_step="Name two results; `seatrial list` shows the runs",
            )
        seen[key] = each.side.name


def _nothing_to_compare_with(source: NamedResult) -> UsageError:
    return UsageError(
        seen=f"{source.name} has one target, and nothing else is named to compare it with",
        cause="A comparison needs two results, or a run of several targets",
        next_step=f"Name another one, as in `seatrial compare BEFORE {source.name}`",
    )


def compared(
    sides: ComparedSides,
    *,
    margin_share: float = MARGIN_SHARE_DEFAULT,
    figures: Collection[str] | None = None,
    anyway: bool = False,
) -> list[Comparison]:
    """Return each of the others against the first, with differences and findings.

    Raises:
        UsageError: When two sides must not be compared, or no figure of one of these names is
            known.
    """
    found = compare(
        sides.first,
        sides.others,
        margin_share=margin_share,
        figures=figures,
        control=sides.control,
        differences=[side_differences(sides.first, other) for other in sides.others],
        anyway=anyway,
    )
    unknown = [name for name in figures or () if not any(_has_figure(c, name) for c in found)]
    if unknown:
        raise UsageError(
            seen=f"No figure {' or '.join(map(repr, unknown))} is known on both sides",
            cause="No figure has this name, or too few requests completed to compute it",
            next_step="Figures are iops, tps, bandwidth, p50 and p99, or of one kind 'read p99'; "
            "without --figure all that are known are compared",
        )
    return [msgspec.structs.replace(each, findings=find_in_comparison(each)) for each in found]


def _has_figure(comparison: Comparison, name: str) -> bool:
    """Return whether a figure was compared, or is unknown because nothing completed."""
    if any(is_wanted(each.figure, [name]) for each in comparison.comparands):
        return True
    if any(is_wanted(each.figure, [name]) for each in comparison.one_sided):
        return True
    all_blank = len(comparison.blank_a) == comparison.cells_count
    return all_blank and name.rpartition(" ")[2] in (*RATES, *PERCENTILES)


def side_differences(a: SideSamples, b: SideSamples) -> list[Difference]:
    """Return what differs in two fingerprints; nothing where one side has none."""
    facts_a, facts_b = facts_of(a), facts_of(b)
    if not facts_a or not facts_b:
        return []
    alike = with_defaults(*named_alike(facts_a, facts_b))
    return described(differences(*alike))


def targets_compared_text(run: Run, samples: Sequence[Sample]) -> str:
    """Return each target of a run against its first; empty if they have no common cell."""
    sides = of_targets(run, samples)
    if sides is None:
        return ""
    try:
        found = compared(sides, anyway=True)
    except UsageError:
        return ""
    return "\n".join(comparison_text(each) for each in found)


def slower_than(comparison: Comparison, share: float) -> str:
    """Return what is significantly slower by more than a share, in words; empty if nothing is.

    The ratio of all common cells if that is slower, else that of the worst cell, else a percentile
    that is unknown on B alone because of requests that B did not answer.
    """
    slower = judged(comparison, is_worse=True).beyond(share)
    for figure, ratio in slower.overall.items():
        cells = comparison.overall_answers[figure].cells
        return f"{figure} of {format_plural(cells, 'test')} is {ratio_phrase(ratio)}"
    if not slower.cells:
        return "; ".join(losses(comparison))
    worst = max(slower.cells, key=lambda each: distance_share(each.ratio))
    return f"{worst.figure} in {format_identity(worst.identity)} is {ratio_phrase(worst.ratio)}"


def comparison_text(comparison: Comparison) -> str:
    """Return a comparison for a terminal: reasons, warnings, cells, overall, verdict."""
    blocks = []
    differing = differences_table(comparison)
    if differing.rows:
        blocks.append(table_text(differing))
    warnings = [_marked(sentence) for sentence in comparison.warnings]
    if warnings:
        blocks.append("\n".join(warnings))
    if comparison.comparands:
        left_out = len(comparison.comparands) - ROWS_SHOWN_MAX
        blocks.append(table_text(comparison_table(shortened(comparison, ROWS_SHOWN_MAX))))
        if left_out > 0:
            blocks.append(f"{left_out:,} more rows: --json or --report FILE has all of them.")
        blocks.append(table_text(overall_table(comparison)))
    blocks += [finding_text(finding) for finding in comparison.findings]
    if noise := noise_phrase(comparison):
        blocks.append(wrapped(f"Noise floor: {noise}."))
    blocks.append(wrapped(comparison.verdict))
    return "\n\n".join(block.rstrip() for block in blocks) + "\n"


def _marked(sentence: str) -> str:
    return wrapped(sentence, " ! ")
