"""Registry of all rules, discovered by folder; runs them over a run or a comparison.

General rules are in ``findings/rules``, the rules of a topic in the folder that the topic names
(``seatrial.topic``). A rule declares itself (``seatrial.findings.rule``). Rules are imported on
first use. How to add one: docs/how-to-add-a-finding.md.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, Final

from seatrial.findings.context import Context, by_target, is_of_lab
from seatrial.findings.rule import Rule, Source
from seatrial.fingerprint import Fingerprint
from seatrial.stats.compare.model import Comparison
from seatrial.stats.model import Finding
from seatrial.topic import modules_below, topics

OF_NO_TOPIC: Final = "seatrial.findings.rules"
SEVERITIES: Final = ("critical", "warning", "note")


@functools.cache
def rules() -> tuple[Rule[Any], ...]:
    """Return all rules, by rank."""
    modules = [
        *modules_below(OF_NO_TOPIC),
        *(m for topic in topics() for m in topic.rule_modules()),
    ]
    found = {
        rule.find: rule
        for module in modules
        for rule in vars(module).values()
        if isinstance(rule, Rule)
    }
    return tuple(sorted(found.values(), key=lambda rule: (rule.rank, rule.kind)))


def rules_from(source: Source) -> list[Rule[Any]]:
    """Return the rules that use one source, by rank."""
    return [rule for rule in rules() if rule.source is source]


def kinds() -> tuple[str, ...]:
    """Return all kinds of findings; the names are stable."""
    return tuple(rule.kind for rule in rules())


def kinds_not_of_lab() -> frozenset[str]:
    """Return the kinds of findings that do not apply in the lab."""
    return frozenset(rule.kind for rule in rules() if not rule.holds_in_lab)


def find(context: Context) -> list[Finding]:
    """Return all findings of a run, including those of its fingerprint, worst first.

    A simulated device runs on virtual time, so the state of this machine does not affect it.
    """
    from_samples = rules_from(Source.SAMPLES)
    if context.samples and all(sample.engine == "simulated" for sample in context.samples):
        return _worst_first(
            f for rule in from_samples if rule.holds_in_simulation for f in rule(context)
        )
    found = [finding for rule in from_samples for finding in rule(_seen_by(rule, context))]
    found += preflight(context.before)
    if is_of_lab(context.run):
        left_out = kinds_not_of_lab()
        found = [finding for finding in found if finding.kind not in left_out]
    return _worst_first(found)


def _seen_by(rule: Rule[Context], context: Context) -> Context:
    """Return the run without the cells that a rule must not see."""
    seen = context if rule.sees_faults else context.without_faults
    return seen if rule.sees_replays else seen.without_replays


def find_in_comparison(comparison: Comparison) -> list[Finding]:
    """Return the findings of a comparison, worst first.

    If targets that should be equal differ, that finding replaces all others.
    """
    for rule in rules():
        if rule.in_comparison and (found := rule.in_comparison(comparison)):
            return found
    return _worst_first(f for rule in rules_from(Source.COMPARISON) for f in rule(comparison))


def find_in_before_after(found: object) -> list[Finding]:
    """Return the findings of queries, pages and batches before and after, worst first."""
    return _worst_first(f for rule in rules_from(Source.BEFORE_AFTER) for f in rule(found))


def find_in_hosts(found: object) -> list[Finding]:
    """Return the findings of the hosts of a cluster, worst first."""
    return _worst_first(f for rule in rules_from(Source.HOSTS) for f in rule(found))


def preflight(fingerprint: Fingerprint) -> list[Finding]:
    """Return what could distort a measurement here, from the fingerprint alone, worst first.

    Args:
        fingerprint: As taken by ``seatrial.machine.fingerprint``; values that are None or absent
            are not judged.
    """
    found: list[Finding] = []
    for rule in rules_from(Source.FINGERPRINT):
        for one_target in by_target(fingerprint):
            found += [finding for finding in rule(one_target) if finding not in found]
    return _worst_first(found)


def _worst_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
