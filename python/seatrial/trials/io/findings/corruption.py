"""Finding ``corruption``: a block did not hold what was written to it."""

from __future__ import annotations

from collections import Counter

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.results.model import Corruption
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_plural

EXAMPLES_MAX = 8
_NAMES = {
    "flipped_bit": "flipped bits",
    "torn_write": "torn writes (part new, part old)",
    "stale": "older data (a lost write)",
    "newer": "newer data than was last acknowledged",
    "misplaced": "another place's data (a misdirected write or read)",
    "foreign": "data that this run did not write",
}


@from_samples(rank=30, section="Data and errors")
def corruption(context: Context) -> list[Finding]:
    """Find blocks that verification proved wrong, all cells merged.

    Means:
        Blocks did not hold what was written to them. Kinds: `flipped_bit`, `torn_write` (part new,
        part old), `stale` (a lost write), `newer`, `misplaced` (a misdirected write or read),
        `foreign` (not ours; zeros if the place was discarded).

    Decided:
        With `verify` on, every sector that is read carries its offset, its generation and a
        checksum; one wrong sector is enough. Critical. Another program that wrote to the same file
        looks the same from here.

    Do:
        Keep no data there. Look at `dmesg -T` and `smartctl -x DEVICE`, test the memory, then
        repeat on another port, cable and machine until the part is found.
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
    return [
        Finding(
            kind="corruption",
            severity="critical",
            cells=identities(concerned),
            sentence=(
                f"{format_plural(corrupt, 'block')} of {checked:,} checked did not hold what was "
                f"written, in {context.of_cells(concerned)}{_kinds(examples)}."
            ),
            cause=(
                "The storage below lost, tore, flipped or misplaced data: a failing drive or "
                "memory, a cache that lies about flushes, a controller or an array at fault. "
                "Another program that wrote to the same file would show the same."
            ),
            evidence={
                "corrupt_blocks_count": corrupt,
                "checked_blocks_count": checked,
                "kinds": dict(Counter(example.kind for example in examples)),
                "examples": [_example(example) for example in examples[:EXAMPLES_MAX]],
            },
            next=(
                "Keep no data here. Look at 'dmesg -T' and 'smartctl -x DEVICE', test the memory, "
                "and repeat with --verify on another port, cable and machine to find the part."
            ),
        )
    ]


def _kinds(examples: list[Corruption]) -> str:
    counts = Counter(example.kind for example in examples)
    if not counts:
        return ""
    names = ", ".join(_NAMES.get(kind, kind) for kind in counts)
    return f": {names}; first at offset {min(example.offset_bytes for example in examples):,}"


def _example(example: Corruption) -> dict[str, object]:
    return {
        "kind": example.kind,
        "offset_bytes": example.offset_bytes,
        "detail": example.detail,
    }
