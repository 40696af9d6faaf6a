"""docs/findings.md is written from the rules, and what keeps it from being written is said."""

import importlib.util
import re
from pathlib import Path

import msgspec
import pytest

from seatrial.findings.context import Context
from seatrial.findings.registry import rules
from seatrial.findings.rule import from_fingerprint
from stats.builders import MS_NS, cell_of, run_of, sample_of, summary_of

SCRIPT = Path(__file__).parents[2] / "tools" / "generate" / "findings.py"
TEMPLATE = "# Findings\n\nIntro.\n\n## Heat\n\nOf heat.\n\n## Cold\n"


@pytest.fixture
def generator():
    spec = importlib.util.spec_from_file_location("generate_findings", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@from_fingerprint(rank=20, section="Heat")
def too_hot(fingerprint):
    """Find what is too hot.

    By a thermometer.

    Means:
        It is hot,
        and stays so:

        - above;
        - below.

        Both.

    Decided:
        By touch.

    Do:
        Cool it.
    """
    return []


@from_fingerprint(rank=20, section="Warmth")
def half_explained(fingerprint):
    """Find it.

    Means:
        Something.
    """
    return []


def test_the_page_holds_each_rule_in_its_section(generator):
    assert generator.page([too_hot], TEMPLATE) == (
        "# Findings\n\nIntro.\n\n## Heat\n\nOf heat.\n\n"
        "### `too_hot`\n\n"
        "**Meaning.** It is hot,\nand stays so:\n\n- above;\n- below.\n\nBoth.\n\n"
        "**Criteria.** By touch.\n\n**What to do.** Cool it.\n\n"
        "## Cold\n"
    )


def test_what_is_wrong_with_rules_is_said(generator):
    assert list(generator.faults([too_hot], TEMPLATE)) == []
    name = f"{__name__}.half_explained"
    assert list(generator.faults([too_hot, half_explained], TEMPLATE)) == [
        f"The rank 20 is taken twice: by {__name__}.too_hot and {name}. Choose another one.",
        f"The docstring in {name} lacks one of 'Means:', 'Decided:', 'Do:', in this order.",
        f"{name} names a section 'Warmth' that findings.md.template lacks. "
        "Name one of its sections, or add one there.",
    ]
    twice = list(generator.faults([too_hot, too_hot], TEMPLATE))
    assert twice[0].startswith("The kind too_hot is taken twice")


def test_the_lint_says_when_the_page_is_of_yesterday(generator, tmp_path, monkeypatch, capsys):
    page = tmp_path / "findings.md"
    page.write_text(generator.PAGE.read_text().replace("### `lab`", "### `laboratory`"))
    monkeypatch.setattr(generator, "PAGE", page)
    assert generator.main(["--check"]) == 1
    assert "make generate" in capsys.readouterr().err
    assert generator.main([]) == 0
    assert generator.main(["--check"]) == 0
    assert page.read_text().count("\n### ") == len(rules())


def test_the_page_of_this_tree_is_up_to_date(generator):
    assert generator.main(["--check"]) == 0


def mixed(read_ms):
    """A run of one mixed cell whose writes take 1 ms."""
    reads = sample_of(cell_of(operation="read"), latency_ns=read_ms * MS_NS)
    writes = sample_of(cell_of(operation="write"), latency_ns=MS_NS)
    both = msgspec.structs.replace(reads, operations=reads.operations | writes.operations)
    return Context(run_of(), [summary_of(both)])


def test_the_example_of_the_guide_is_a_rule_as_the_guide_says(generator, tmp_path, monkeypatch):
    guide = (Path(__file__).parents[2] / "docs" / "how-to-add-a-finding.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    (tmp_path / "reads_starved.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    from reads_starved import reads_starved

    template = generator.TEMPLATE.read_text()
    assert list(generator.faults([*rules(), reads_starved], template)) == []
    assert "\n### `reads_starved`\n\n**Meaning.** Reads wait" in generator.page(
        [*rules(), reads_starved], template
    )
    assert [reads_starved(mixed(read_ms)) != [] for read_ms in (9, 11)] == [False, True]
