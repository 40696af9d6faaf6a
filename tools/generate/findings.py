"""Write docs/findings.md from the declarations of the rules and a template: `make generate`.

    python tools/generate/findings.py            # writes the page
    python tools/generate/findings.py --check    # reports errors instead: `make lint`

findings.md.template holds the sections of the page with their introductions; a rule names its
section.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from seatrial.findings.registry import rules
from seatrial.findings.rule import Rule

PAGE: Final = Path(__file__).parents[2] / "docs" / "findings.md"
TEMPLATE: Final = Path(__file__).with_suffix(".md.template")
PARTS: Final = {"Means": "Meaning", "Decided": "Criteria", "Do": "What to do"}
"""Parts of a rule's docstring, and their titles on the page."""
PART: Final = re.compile(r"^(\w+):\n((?:(?: {4}.*)?(?:\n|\Z))+)", re.MULTILINE)


def parts_of(rule: Rule[Any]) -> dict[str, str]:
    """Return what a rule's docstring says below ``Means:``, ``Decided:`` and ``Do:``."""
    found = PART.findall(inspect.getdoc(rule.find) or "")
    return {name: inspect.cleandoc(f"\n{text}") for name, text in found if name in PARTS}


def faults(rules: Sequence[Rule[Any]], template: str) -> Iterator[str]:
    """Yield a sentence for each error in the rules."""
    for what, values in (
        ("kind", [rule.kind for rule in rules]),
        ("rank", [rule.rank for rule in rules]),
    ):
        for value in (value for value, count in Counter(values).items() if count > 1):
            where = " and ".join(home_of(rule) for rule in rules if getattr(rule, what) == value)
            yield f"The {what} {value} is taken twice: by {where}. Choose another one."
    sections = re.findall(r"^## (.*)$", template, re.MULTILINE)
    for rule in rules:
        if list(parts_of(rule)) != list(PARTS):
            wanted = ", ".join(f"'{part}:'" for part in PARTS)
            yield f"The docstring in {home_of(rule)} lacks one of {wanted}, in this order."
        if rule.section not in sections:
            yield (
                f"{home_of(rule)} names a section {rule.section!r} that {TEMPLATE.name} lacks. "
                "Name one of its sections, or add one there."
            )


def home_of(rule: Rule[Any]) -> str:
    """Return where a rule is declared."""
    return f"{rule.find.__module__}.{rule.kind}"


def page(rules: Iterable[Rule[Any]], template: str) -> str:
    """Return the page: the template, and in each of its sections the rules by their rank."""
    by_section: dict[str, list[str]] = {}
    for rule in rules:
        parts = "\n\n".join(f"**{PARTS[name]}.** {text}" for name, text in parts_of(rule).items())
        by_section.setdefault(rule.section, []).append(f"### `{rule.kind}`\n\n{parts}\n")
    head, *sections = re.split(r"^(?=## )", template, flags=re.MULTILINE)
    written = [head.rstrip("\n") + "\n"]
    for section in sections:
        title = section.partition("\n")[0].removeprefix("## ")
        written += [section.rstrip("\n") + "\n", *by_section.get(title, [])]
    return "\n".join(written)


def main(arguments: Sequence[str]) -> int:
    """Write the page, or report errors in it and in the rules."""
    template = TEMPLATE.read_text(encoding="utf-8")
    # The rules of installed third-party topics are documented elsewhere.
    own = [rule for rule in rules() if rule.find.__module__.startswith("seatrial.")]
    wrong = list(faults(own, template))
    new = page(own, template)
    if "--check" not in arguments and not wrong:
        PAGE.write_text(new, encoding="utf-8")
    elif not wrong and PAGE.read_text(encoding="utf-8") != new:
        wrong.append("docs/findings.md differs from the rules. Run: make generate")
    sys.stderr.writelines(f"{sentence}\n" for sentence in wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
