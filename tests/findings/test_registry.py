"""Kinds of findings: their names, their functions and docs/findings.md agree."""

import inspect
import re
import sys
from pathlib import Path

import pytest

from seatrial.findings.registry import (
    FROM_BEFORE_AFTER,
    FROM_COMPARISON,
    FROM_FINGERPRINT,
    FROM_SAMPLES,
    KINDS,
    SEVERITIES,
)

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "findings.md"
FOLDERS = (ROOT / "python/seatrial").glob("**/findings")
SOURCES = [path for folder in FOLDERS for path in folder.glob("*.py")]


def documented_kinds():
    return re.findall(r"^### `(\w+)`$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)


def test_every_kind_has_one_section_and_every_section_a_kind():
    assert sorted(documented_kinds()) == sorted(KINDS)


def test_kinds_are_unique():
    assert len(set(KINDS)) == len(KINDS)


@pytest.mark.parametrize(
    "finder",
    [*FROM_SAMPLES, *FROM_FINGERPRINT, *FROM_COMPARISON, *FROM_BEFORE_AFTER],
    ids=lambda f: f.__name__,
)
def test_a_finder_yields_its_own_kind(finder):
    source = inspect.getsource(sys.modules[finder.__module__])
    kinds = re.findall(r'kind="(\w+)"', source)
    assert finder.__name__ in kinds
    assert set(kinds) <= set(KINDS)


def test_severities_in_the_sources_are_known():
    for path in SOURCES:
        words = re.findall(r'severity="(\w+)"', path.read_text(encoding="utf-8"))
        assert set(words) <= set(SEVERITIES), path.name


def test_sections_say_what_it_means_how_it_is_decided_and_what_to_do():
    sections = re.split(r"^### ", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    for section in sections:
        for part in ("**Means.**", "**Decided.**", "**Do.**"):
            assert part in section, f"{section.splitlines()[0]} lacks {part}"
