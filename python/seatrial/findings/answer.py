"""The answer of a run, which terminal and page show first.

It answers four questions: is the storage all right, what is its worst problem, how reliable are the
figures, and what to do next.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import msgspec

from seatrial.findings.model import Summary
from seatrial.findings.profile import (
    Assessment,
    Grade,
    Profile,
    assess,
    load_profile,
    worst_grade,
)
from seatrial.findings.profiles import BUILT_IN
from seatrial.findings.tile import Tile
from seatrial.findings.traffic import requested_read_bytes, requested_write_bytes
from seatrial.findings.verdict import doubts_of, io_tiles
from seatrial.published import HIDDEN
from seatrial.results.model import Sample, known_duration_s
from seatrial.stats.fastest import Served, served_by_caches
from seatrial.stats.model import CellSummary, Estimate, Finding
from seatrial.stats.wording import (
    capitalized,
    format_count,
    format_duration_s,
    format_half_width,
    format_list,
    format_plural,
    format_value,
)
from seatrial.topic import topic_of, topics

VERDICT_LETTERS_MAX: Final = 100
TILES_MAX: Final = 6
WORST_MAX: Final = 3
STEADY_S_MIN: Final = 60.0
"""Shorter samples do not show garbage collection, full write caches or burst credit."""
EARLY_SHARE_MAX: Final = 0.5
"""Largest share of its planned time after which a sample has ended long before it."""
WRITTEN_SHARE_MIN: Final = 0.9
"""Least share of `limit_bytes` that a sample which ended by it has completed."""
_FIT_WORDS: Final = {"good": "fit for", "marginal": "marginal for", "poor": "not fit for"}


class RunAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a run.

    Attributes:
        verdict: One line of at most 100 characters.
        grade: The worse of the grade by the chosen profile and by the study's thresholds;
            ``unknown`` without either.
        tiles: At most six figures.
        worst: The most severe findings that are not notes, at most three.
        worst_lines: The same, each in one line.
        notes_count: Number of other findings.
        confidence: How reliable the figures are, in one sentence.
        next_step: What to do next.
        assessments: Assessments of each target by the chosen profile, else by all shipped ones.
        profile: Name of the chosen profile; empty for none.
        missed: A sentence for each threshold that is not kept.
    """

    verdict: str
    grade: Grade
    tiles: list[Tile]
    worst: Annotated[list[Finding], HIDDEN]
    worst_lines: list[str]
    notes_count: int
    confidence: str
    next_step: str
    assessments: list[Assessment]
    profile: str = ""
    missed: Annotated[list[str], HIDDEN] = []


def answer(summary: Summary, profile: str = "") -> RunAnswer:
    """Return the answer of a run.

    Args:
        summary: The run.
        profile: Name or file of the profile that figures are graded by; empty for none.

    Raises:
        UsageError: when there is no such profile.
    """
    chosen = load_profile(profile) if profile else None
    profiles = [chosen] if chosen else [load_profile(name) for name in BUILT_IN]
    served = served_by_caches(summary.findings)
    assessments = [
        assess(each, target, [c for c in summary.cells if c.cell.target == target], served)
        for target in _targets(summary.cells)
        for each in profiles
    ]
    worst = [each for each in summary.findings if each.severity != "note"][:WORST_MAX]
    graded = _graded_tiles(assessments) if chosen else []
    tiles = [_with_threshold(each, summary) for each in [*graded, *_tiles(summary)][:TILES_MAX]]
    return RunAnswer(
        verdict=_verdict(summary, assessments, chosen, tiles),
        grade=_grade(summary, assessments if chosen else []),
        tiles=tiles,
        worst=worst,
        worst_lines=[in_one_line(each) for each in worst],
        notes_count=len(summary.findings) - len(worst),
        confidence=_confidence(summary, tiles),
        next_step=_next_step(summary, worst),
        assessments=assessments,
        profile=profile,
        missed=[each.sentence for each in summary.thresholds if not each.met],
    )


def _targets(cells: Iterable[CellSummary]) -> list[str]:
    return list(dict.fromkeys(each.cell.target for each in cells))


# Tiles


def _tiles(summary: Summary) -> list[Tile]:
    """Return the figures of one target, or of several targets the first figure of each."""
    served = served_by_caches(summary.findings)
    by_target = {
        target: _tiles_of(summary, [c for c in summary.cells if c.cell.target == target], served)
        for target in _targets(summary.cells)
    }
    if len(by_target) == 1:
        return next(iter(by_target.values()))[:TILES_MAX]
    common = Counter(tile.label for tiles in by_target.values() for tile in tiles)
    label = max(common, key=lambda each: common[each], default="")
    firsts = [
        msgspec.structs.replace(tile, label=f"{target}: {tile.label}")
        for target, tiles in by_target.items()
        for tile in tiles
        if tile.label == label
    ]
    return firsts[:TILES_MAX]


def _tiles_of(summary: Summary, cells: Sequence[CellSummary], served: Served) -> list[Tile]:
    own = [tiles for each in topics() if (tiles := each.tiles(cells, summary.analyses))]
    firsts = [t for tiles in own for t in tiles if t.estimate.unit == tiles[0].estimate.unit]
    others = [tile for tiles in own for tile in tiles if tile not in firsts]
    return [*firsts, *io_tiles(cells, served, has_headline=bool(own)), *others]


def _graded_tiles(assessments: Sequence[Assessment]) -> list[Tile]:
    """Return the figures that a chosen profile needs, each with its grade."""
    several = len({each.target for each in assessments}) > 1
    return [
        Tile(
            label=f"{assessment.target}: {each.label}" if several else each.label,
            estimate=each.figure,
            test=each.test,
            cell=each.cell,
            better="lower" if each.requirement.good.startswith("<") else "higher",
            grade=each.grade,
            limit=each.reason,
        )
        for assessment in assessments
        for each in assessment.figures
        if each.figure is not None
    ]


def _with_threshold(tile: Tile, summary: Summary) -> Tile:
    for result in summary.thresholds:
        if result.cell == tile.cell and not result.met:
            grade: Grade = "poor" if result.mark == "breached" else "unknown"
            return msgspec.structs.replace(tile, grade=grade, limit=result.sentence)
    return tile


# Verdict


def _verdict(
    summary: Summary,
    assessments: Sequence[Assessment],
    chosen: Profile | None,
    tiles: Sequence[Tile],
) -> str:
    """Return the most important result in one line of at most 100 characters."""
    if not summary.cells:
        return "Nothing was measured."
    parts: list[str] = []
    if doubts := doubts_of(summary):
        parts += [f"do not trust these figures: {doubts[0]}", *doubts[1:]]
    missed = Counter(each.mark for each in summary.thresholds if not each.met)
    of = format_plural(len(summary.thresholds), "threshold")
    parts += [f"{missed[mark]} of {of} {mark}" for mark in sorted(missed)]
    parts += [line for each in topics() if (line := each.verdict_line(summary))]
    counts = _counts(summary)
    room = VERDICT_LETTERS_MAX - len(counts) - 1 - sum(len(each) + 2 for each in parts)
    if fit := _fit(assessments, chosen, room):
        parts.append(fit)
    if not parts:
        parts += [_tile_phrase(tile) for tile in tiles]
    line = _joined(parts or [_without_figures(summary.cells)], counts)
    # The name of a target keeps the user's spelling.
    is_named = any(line.startswith(f"{name}: ") for name in _targets(summary.cells))
    return line if is_named else capitalized(line)


def _without_figures(cells: Sequence[CellSummary]) -> str:
    """Return the verdict on tests none of whose figures is representative."""
    completed = sum(any(sample.outcome.completed for sample in each.samples) for each in cells)
    if completed:
        return f"{format_plural(completed, 'test')} measured; --tables shows the figures"
    return "nothing completed in any test"


def _joined(parts: Sequence[str], ending: str) -> str:
    """Return the first part, as many others as fit, and the ending."""
    room = VERDICT_LETTERS_MAX - len(ending) - 1
    line = first_clauses(parts[0], room)
    for part in parts[1:]:
        if len(line) + 2 + len(part) > room:
            break
        line += f"; {part}"
    stop = "" if f"{line}{ending}".endswith("…") else "."
    return f"{line}{ending}{stop}"


_CLAUSE_ENDS: Final = re.compile(r"; |(?<![Uu]ndecided): | \((?=[^()]*\)(?:[.;:]|$))")
_CLAUSE_SHARE_MIN: Final = 0.5
"""The shortest clause that may represent its sentence."""


def first_clauses(text: str, letters_max: int) -> str:
    """Return as many whole clauses of a sentence as fit, else a clipped text."""
    if len(text) <= letters_max:
        return text
    ends = [
        each.start()
        for each in _CLAUSE_ENDS.finditer(text)
        if each.end() <= letters_max + 1
        and text.count("(", 0, each.start()) == text.count(")", 0, each.start())
    ]
    if ends and ends[-1] >= letters_max * _CLAUSE_SHARE_MIN:
        return text[: ends[-1]]
    return clipped(text, letters_max)


def clipped(text: str, letters_max: int) -> str:
    """Return a text, cut between words if it is longer than the maximum."""
    if len(text) <= letters_max:
        return text
    return f"{text[: letters_max - 1].rsplit(' ', 1)[0].rstrip(' ,;:(')}…"


def _counts(summary: Summary) -> str:
    critical = sum(each.severity == "critical" for each in summary.findings)
    warnings = sum(each.severity == "warning" for each in summary.findings)
    words = [f"{critical} critical"] * bool(critical)
    words += [format_plural(warnings, "warning")] * bool(warnings)
    return f"; {', '.join(words)}" if words else ""


def _fit(assessments: Sequence[Assessment], chosen: Profile | None, room: int) -> str:
    """Return the uses that a single target is fit for; for a chosen profile also why it is not.

    If there is no room, the highest rate is omitted, never an unfit use.
    """
    if len({each.target for each in assessments}) != 1:
        return _fit_of_targets(assessments) if chosen else ""
    if chosen:
        (only,) = assessments
        return _fit_of_one(only)
    rate = next((each.capacity for each in assessments if each.grade == "good"), "")
    choices = [_fit_by_grade(assessments, each) for each in (rate, rate.partition(" (")[0], "")]
    return next((each for each in choices if len(each) <= room), choices[-1])


def _fit_by_grade(assessments: Sequence[Assessment], rate: str) -> str:
    """Return the uses by grade, with the highest rate of the first fit one."""
    by_grade: dict[Grade, list[str]] = {}
    for each in assessments:
        is_first = not by_grade.get("good") and each.grade == "good"
        limit = f" up to {rate}" if rate and is_first and each.capacity else ""
        by_grade.setdefault(each.grade, []).append(f"{each.profile.title}{limit}")
    if rate:  # comes last: the next use would read as a part of the rate
        by_grade["good"] = by_grade["good"][1:] + by_grade["good"][:1]
    return "; ".join(
        f"{words} {format_list(by_grade[grade])}"
        for grade, words in _FIT_WORDS.items()
        if grade in by_grade
    )


def _fit_of_one(only: Assessment) -> str:
    title = only.profile.title
    if only.grade == "good":
        return f"fit for {title}{f' up to {only.capacity}' if only.capacity else ''}"
    bad = [each for each in only.figures if each.grade == only.grade]
    why = ", ".join(_failing_phrase(each.label, each.figure) for each in bad)
    if only.grade == "unknown":
        return f"not enough measured for {title}: {only.missing}"
    return f"{_FIT_WORDS[only.grade]} {title}: {why}"


def _failing_phrase(label: str, figure: Estimate | None) -> str:
    return f"{label} {format_value(figure)}" if figure is not None else label


def _fit_of_targets(assessments: Sequence[Assessment]) -> str:
    title = assessments[0].profile.title if assessments else ""
    by_grade: dict[Grade, list[str]] = {}
    for each in assessments:
        by_grade.setdefault(each.grade, []).append(each.target)
    return "; ".join(
        f"{format_list(by_grade[grade])} {words} {title}"
        for grade, words in _FIT_WORDS.items()
        if grade in by_grade
    )


def _tile_phrase(tile: Tile) -> str:
    return f"{tile.label} {format_value(tile.estimate)}"


def _grade(summary: Summary, assessments: Sequence[Assessment]) -> Grade:
    grades: list[Grade] = [each.grade for each in assessments]
    if any(each.mark == "breached" for each in summary.thresholds):
        return "poor"
    if any(not each.met for each in summary.thresholds):
        grades.append("unknown")
    elif summary.thresholds:
        grades.append("marginal" if any(each.doubtful for each in summary.thresholds) else "good")
    return worst_grade(grades)


# Confidence and next step


def _confidence(summary: Summary, tiles: Sequence[Tile]) -> str:
    """Return the number of rounds, the width of the tiles' intervals, and what varied."""
    rounds = max((len(each.samples) for each in summary.cells), default=0)
    phrases = ["measured once" if rounds <= 1 else f"{rounds} rounds"]
    if most := _widest(tiles, "rounds"):
        phrases.append(f"95 % intervals of the figures above {most}")
    elif most := _widest(tiles, "timeline"):
        phrases.append(f"the figures above vary by {most} within one round")
    elif rounds > 1:
        phrases.append("no intervals")
    unsteady = sum(each.iops.scatter is not None for each in summary.cells)
    if unsteady:
        phrases.append(
            f"rounds differ by more than 2x in {unsteady} of "
            f"{format_plural(len(summary.cells), 'test')}"
        )
    durations_s = [known_duration_s(s) for each in summary.cells for s in each.samples]
    longest_s = 0.0 if None in durations_s else max(filter(None, durations_s), default=0.0)
    phrases += _ended_by_bytes(summary.cells)
    is_steady = any(
        rule.rule == "snia" and rule.met
        for state in summary.steady
        if state.over == "rounds"
        for rule in state.rules
    )
    if tiles and 0 < longest_s < STEADY_S_MIN and not is_steady:
        phrases.append(
            f"samples of at most {format_duration_s(longest_s)} are too short to show steady state"
        )
    if checks := [s.verification for c in summary.cells for s in c.samples if s.verification]:
        corrupt = sum(each.corrupt_blocks for each in checks)
        checked = format_plural(sum(each.checked_blocks for each in checks), "block")
        phrases.append(
            f"{checked} verified, {format_count(corrupt) if corrupt else 'none'} corrupt"
        )
    if summary.run.status != "complete":
        phrases.append(f"the run is {summary.run.status}")
    sentence = "; ".join(phrases)
    return f"{sentence[0].upper()}{sentence[1:]}."


def _ended_by_bytes(cells: Sequence[CellSummary]) -> list[str]:
    """Return how many tests reached their limit of bytes long before their time was over."""
    shortest_s: dict[str, float] = {}
    for each in cells:
        limit = each.cell.parsed.limit
        topic = topic_of(each.cell)
        # A fill, a copy and a recording end when all is done.
        is_whole = topic.comes_first(each.cell) or topic.has_fixed_work(each.cell)
        if is_whole or each.cell.operation == "copy" or limit.bytes is None:
            continue
        early_s = [
            sample.duration_s
            for sample in each.samples
            if sample.duration_s < EARLY_SHARE_MAX * each.cell.parsed.duration_s
            and _limited_bytes(sample) >= WRITTEN_SHARE_MIN * limit.bytes
        ]
        if early_s:
            shortest_s[each.cell.key] = min(early_s)
    if not shortest_s:
        return []
    first = "the first " if len(shortest_s) > 1 else ""
    return [
        f"{len(shortest_s)} of {format_plural(len(cells), 'test')} reached limit_bytes early, "
        f"{first}after {format_duration_s(min(shortest_s.values()))}"
    ]


def _limited_bytes(sample: Sample) -> int:
    """Return the bytes that count towards ``limit_bytes``; in mixed tests the reads do, too."""
    written_bytes = requested_write_bytes(sample)
    is_mixed = sample.cell.operation == "mixed"
    return written_bytes + requested_read_bytes(sample) if is_mixed else written_bytes


def _widest(tiles: Sequence[Tile], over: str) -> str:
    """Return the widest of the intervals with one basis, in words; empty without any."""
    shown = [each.estimate.shown for each in tiles]
    widths = [w for each in shown if each.over == over and (w := each.half_width_share) is not None]
    if not widths:
        return ""
    if max(widths) > 1:
        return f"more than ± {format_half_width(1.0)}"
    return f"up to ± {format_half_width(max(widths))}"


_FIRST_SENTENCE: Final = re.compile(r"(.+?[.;])(?:\s|$)", re.DOTALL)


def first_sentence(text: str) -> str:
    """Return the first sentence or clause of a text, without its full stop."""
    found = _FIRST_SENTENCE.match(text)
    return (found[1] if found else text).rstrip(".;")


def in_one_line(finding: Finding) -> str:
    """Return a finding in a few words: its short form, or its first sentence."""
    words = finding.figures.in_short(len(finding.cells)) or _without_tests(finding)
    # The name of a compared side keeps the user's spelling.
    is_named = words.startswith(getattr(finding.figures, "b", None) or "\0")
    return (words if is_named else capitalized(words)) or finding.kind


def _without_tests(finding: Finding) -> str:
    """Return the first sentence of a finding, without the names of tests that it begins with."""
    figures, sentence = finding.figures, finding.sentence
    concerned = getattr(figures, "concerned", None) or getattr(figures, "where", None)
    return first_sentence(sentence.removeprefix(f"{concerned}: ") if concerned else sentence)


def _next_step(summary: Summary, worst: Sequence[Finding]) -> str:
    if worst:
        return worst[0].next
    for each in topics():
        if step := each.next_step(summary):
            return step
    return (
        f"Keep this run as the baseline, and compare after each change: "
        f"'seatrial compare {summary.run.id} last{_results_option(summary.run.command)}'"
    )


def _results_option(command: str) -> str:
    """Return the option by which a command named its results file; empty where it named none."""
    named = re.search(r" --results[ =]('[^']*'|\S+)", command)
    # The sentence has the whole command in single quotes.
    return f" --results {named[1]}".replace("'", '"') if named else ""
