"""The summary at the top of a comparison's page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seatrial.findings.answer import (
    TILES_MAX,
    VERDICT_LETTERS_MAX,
    WORST_MAX,
    RunAnswer,
    first_clauses,
    in_one_line,
)
from seatrial.findings.tile import Tile
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_count, format_plural
from seatrial.trials.replay.compare.model import BeforeAfter, Overall, Table
from seatrial.trials.replay.compare.report.wording import (
    answer_phrase,
    compared_phrase,
    floor_phrase,
    page_verdict,
    tables_of,
)
from seatrial.trials.replay.compare.warnings import NOUNS


def before_after_answer(
    found: BeforeAfter, findings: Sequence[Finding], warnings: Sequence[str]
) -> RunAnswer:
    """Return the answer of a comparison of before and after.

    Args:
        found: The comparison.
        findings: Its findings, the most severe first.
        warnings: Sentences.
    """
    worst = [finding for finding in findings if finding.severity != "note"][:WORST_MAX]
    sentences = found.verdict or [page_verdict(found)]
    return RunAnswer(
        verdict=f"{first_clauses(sentences[0].rstrip('.'), VERDICT_LETTERS_MAX - 1)}.",
        grade="unknown",
        tiles=list(_tiles(found))[:TILES_MAX],
        worst=worst,
        worst_lines=[in_one_line(each) for each in worst],
        notes_count=len(findings) - len(worst),
        confidence=_confidence(found, warnings),
        next_step=worst[0].next if worst else _next_step(found),
        assessments=[],
    )


def warnings_of(found: BeforeAfter) -> list[str]:
    """Return all warnings, each once: those of the whole first."""
    tables = [warning for table in found.tables for warning in table.warnings]
    return list(dict.fromkeys([*found.warnings, *tables]))


def _tiles(found: BeforeAfter) -> Iterator[Tile]:
    for table, subject in tables_of(found):
        if table.overall is None:
            continue
        noun, plural = NOUNS[subject]
        count = format_plural(len(table.changes), noun, plural)
        yield Tile(
            label=f"Average {noun}, speed-up",
            estimate=table.overall.speed_up,
            detail=answer_phrase(table.overall),
            test=_counts(table.overall),
            cell="",
        )
        yield Tile(
            label=f"Geometric mean of {plural}, speed-up",
            estimate=table.overall.geometric,
            test=f"{count}, each counted alike",
            cell="",
        )
    for batch in found.batches:
        yield Tile(
            label=f"{batch.name}, speed-up",
            estimate=batch.speed_up,
            detail=answer_phrase(batch),
            test=f"{len(batch.before_s)} before, {len(batch.after_s)} after",
            cell="",
        )


def _counts(overall: Overall) -> str:
    counts = {"faster": overall.faster, "slower": overall.slower, "same": overall.same}
    return ", ".join(f"{format_count(count)} {word}" for word, count in counts.items())


def _confidence(found: BeforeAfter, warnings: Sequence[str]) -> str:
    phrases = [compared_phrase(table, subject) for table, subject in tables_of(found)]
    phrases += [
        f"noise {noise}"
        for table, subject in tables_of(found)
        if (noise := floor_phrase(table.floor, subject))
    ]
    if found.batches and not phrases:
        phrases.append(format_plural(len(found.batches), "batch", "batches"))
    if warnings:
        phrases.append(f"{format_plural(len(warnings), 'limitation')} below")
    sentence = "; ".join(phrases)
    return f"{sentence[:1].upper()}{sentence[1:]}."


def _next_step(found: BeforeAfter) -> str:
    tables = found.tables
    overalls = [table.overall for table in tables if table.overall is not None]
    answers = [
        *(overall.answer for overall in overalls),
        *(batch.answer for batch in found.batches),
        *(change.answer for table in tables for change in table.changes),
    ]
    if "slower" in answers:
        return "Look at what became slower, and at changed plans, below."
    if not all(table.changes for table in tables):
        return "Name two sides with queries or pages in common."
    rounds = [
        overall.rounds_more
        for overall in overalls
        if overall.answer == "undecided" and overall.rounds_more
    ]
    if rounds:
        return f"Measure {format_plural(min(rounds), 'more round')} of both to settle it."
    bases = [table.basis for table in tables if _is_open(table)]
    bases += ["once" for batch in found.batches if batch.answer == "undecided"]
    if bases and set(bases) == {"interleaved"}:
        return "Measure more rounds of both, on a quieter machine, to settle what is undecided."
    if bases:
        return "Measure both several times, in turn, to settle what is undecided."
    return "Nothing: no regression was found."


def _is_open(table: Table) -> bool:
    """Return whether further measurements may settle the average of a table."""
    overall = table.overall
    if overall is None:
        return True
    # Interleaved rounds within the noise floor remain there, however many they are.
    is_noise = overall.below_floor and table.basis == "interleaved"
    return overall.answer == "undecided" and not is_noise
