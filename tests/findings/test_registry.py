"""Rules declare themselves, are found by their folder, and say what they find."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from seatrial.findings import registry
from seatrial.findings.context import Context
from seatrial.findings.registry import SEVERITIES, find, kinds, kinds_not_of_lab, rules, rules_from
from seatrial.findings.rule import Source
from seatrial.topic import Topic
from stats.builders import cell_of, run_of, sample_of, summary_of

PRODUCT = Path(__file__).parents[2] / "python/seatrial"
SOURCES = [path for folder in PRODUCT.glob("**/findings") for path in folder.glob("**/*.py")]

RULE = """
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Figures, Finding, FindingText

class TooPurple(Figures, frozen=True, tag="too_purple"):
    def text(self):
        return FindingText("Purple.", "", "")

@from_samples(rank=1, section="Time")
def too_purple(context):
    return [
        Finding(severity="critical", cells=[], figures=TooPurple())
    ]
"""


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.kind)
def test_a_rule_yields_its_own_kind(rule):
    source = inspect.getsource(sys.modules[rule.find.__module__])
    found = re.findall(r'tag="(\w+)"', source)
    assert rule.kind in found
    assert set(found) <= set(kinds())


def test_severities_in_the_sources_are_known():
    assert len(SOURCES) > len(rules()) / 2
    for path in SOURCES:
        words = re.findall(r'severity="(\w+)"', path.read_text(encoding="utf-8"))
        assert set(words) <= set(SEVERITIES), path.name


def test_every_source_has_rules_and_the_lab_hears_of_speed_from_none():
    assert all(rules_from(source) for source in Source)
    assert {"stall", "slow_device", "virtualised"} <= kinds_not_of_lab() < set(kinds())


def test_a_topic_brings_its_rules_along(tmp_path, monkeypatch):
    folder = tmp_path / "purple" / "findings"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    (folder.parent / "topic.py").write_text(
        "from seatrial.topic import Topic\nclass Purple(Topic):\n    name = 'purple'\n"
    )
    (folder / "__init__.py").touch()
    (folder / "too_purple.py").write_text(RULE)
    monkeypatch.syspath_prepend(tmp_path)
    from purple.topic import Purple

    monkeypatch.setattr(registry, "topics", lambda: (Purple(),))
    rules.cache_clear()
    try:
        found = find(Context(run_of(), [summary_of(sample_of(cell_of()))]))
    finally:
        rules.cache_clear()
    assert found[0].kind == "too_purple"


def test_a_topic_without_a_folder_of_rules_has_its_module_alone():
    class Plain(Topic):
        """Has no folder of rules."""

    assert [module.__name__ for module in Plain().rule_modules()] == [__name__]


def test_rules_are_imported_when_findings_are_sought_and_not_before():
    script = (
        "import sys, seatrial.findings.registry as registry\n"
        "def loaded(): return [n for n in sys.modules if n.endswith('findings.corruption')]\n"
        "assert not loaded(), loaded()\n"
        "from seatrial.fingerprint import Fingerprint\n"
        "registry.preflight(Fingerprint())\n"
        "assert loaded()\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
