"""Finding ``corruption``: a block read back differs from what was written."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from seatrial.findings.context import AffectedCells, Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.results.model import Corruption
from seatrial.stats.model import Figures, Finding, FindingText

EXAMPLES_MAX = 8
_NAMES = {
    "flipped_bit": "flipped bits",
    "torn_write": "torn writes (part new, part old)",
    "stale": "older data (a lost write)",
    "newer": "newer data than the last acknowledged write",
    "misplaced": "data of another offset (a misdirected write or read)",
    "foreign": "data that this run did not write",
}


class CorruptionFigures(Figures, frozen=True, kw_only=True, tag="corruption"):
    corrupt_blocks_count: int
    checked_blocks_count: int
    kinds: dict[str, int]
    examples: list[dict[str, object]]
    concerned: Annotated[AffectedCells, HIDDEN]
    first_bytes: Annotated[int, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"{self.corrupt_blocks_count:,} of {self.checked_blocks_count:,} reads failed "
                f"verification in "
                f"{self.concerned}{_kinds(self.kinds, self.first_bytes)}."
            ),
            cause=(
                "The storage lost, tore, flipped or misplaced data: a failing drive or memory, a "
                "cache that ignores flushes, a faulty controller or array. Another process that "
                "writes to the same file has the same effect."
            ),
            next=(
                "Do not store data here. Read 'dmesg -T' and 'smartctl -x DEVICE', test the "
                "memory, and repeat with --verify on another port, cable and machine to find the "
                "faulty part."
            ),
        )


@from_samples(
    rank=30, section="Data and errors", doubt="data came back wrong", doubts_all_cells=True
)
def corruption(context: Context) -> list[Finding]:
    """Find reads that failed verification, all cells merged.

    Means:
        Blocks read back differ from what was written. Kinds: `flipped_bit`, `torn_write` (part new,
        part old), `stale` (a lost write), `newer`, `misplaced` (a misdirected write or read),
        `foreign` (not written by this run; zeros if the block was discarded).

    Decided:
        With `verify` on, every sector contains its offset, its generation and a checksum; one wrong
        sector is enough. Critical. Writes of another process to the same file cannot be
        distinguished from corruption.

    Do:
        Do not store data there. Read `dmesg -T` and `smartctl -x DEVICE`, test the memory, then
        repeat on another port, cable and machine until the faulty part is found.
    """
    concerned = [
        summary
        for summary in context.cells
        if any(s.verification and s.verification.corrupt_blocks for s in summary.samples)
    ]
    if not concerned:
        return []
    checks = [s.verification for c in concerned for s in c.samples if s.verification]
    corrupt = sum(check.corrupt_blocks for check in checks)
    checked = sum(check.checked_blocks for check in checks)
    examples = [example for check in checks for example in check.corruptions]
    kinds = dict(Counter(example.kind for example in examples))
    first_bytes = min((example.offset_bytes for example in examples), default=0)
    figures = CorruptionFigures(
        corrupt_blocks_count=corrupt,
        checked_blocks_count=checked,
        kinds=kinds,
        examples=[_example(example) for example in examples[:EXAMPLES_MAX]],
        concerned=context.affected_cells(concerned),
        first_bytes=first_bytes,
    )
    return [Finding(severity="critical", cells=identities(concerned), figures=figures)]


def _kinds(counts: dict[str, int], first_bytes: int) -> str:
    if not counts:
        return ""
    names = ", ".join(_NAMES.get(kind, kind) for kind in counts)
    return f": {names}; first at offset {first_bytes:,}"


def _example(example: Corruption) -> dict[str, object]:
    return {
        "kind": example.kind,
        "offset_bytes": example.offset_bytes,
        "detail": example.detail,
    }
