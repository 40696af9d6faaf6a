"""What the topics make of a run, put together by hand."""

from __future__ import annotations

from typing import Any

import msgspec

TOPICS = {
    "audits": "audit",
    "load_lines": "loadline",
    "database": "database",
    "layouts": "layouts",
    "replays": "replay",
}


def analyses_of(**found: Any) -> dict[str, Any]:
    """Analyses by topic, of what is called ``audits``, ``load_lines`` and so on."""
    return {TOPICS[name]: each for name, each in found.items() if each}


def with_analyses(summary: Any, **changes: Any) -> Any:
    """A summary with other analyses and fields; None or an empty list takes an analysis away."""
    found = {name: each for name, each in changes.items() if name in TOPICS}
    fields = {name: each for name, each in changes.items() if name not in TOPICS}
    others = {TOPICS[name] for name in found}
    kept = {name: each for name, each in summary.analyses.items() if name not in others}
    return msgspec.structs.replace(summary, **fields, analyses=kept | analyses_of(**found))
