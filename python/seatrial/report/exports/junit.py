"""A run as JUnit XML, for the test view of a CI server.

A case for each threshold of the study, for each finding other than notes, and for the verdict. A
threshold that is not met and a critical finding fail; a warning passes, with its text as output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from seatrial.findings.answer import answer
from seatrial.findings.model import Summary

_NOT_XML: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 has no way to write."""


def render(summary: Summary) -> str:
    """Return the run as one JUnit XML document."""
    run = summary.run
    suite = Element("testsuite", name=run.label or run.study_name)
    for case in [*_thresholds(summary), *_findings(summary)]:
        suite.append(case)
    verdict = Element("testcase", classname="seatrial", name="verdict")
    SubElement(verdict, "system-out").text = answer(summary).verdict
    suite.append(verdict)
    failures = len(suite.findall("testcase/failure"))
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("failures", str(failures))
    suite.set("errors", "0")
    took_s = 0.0 if run.ended_at is None else run.ended_at - run.started_at
    suite.set("time", f"{took_s:.3f}")
    suites = Element("testsuites")
    suites.append(suite)
    indent(suites)
    text = _NOT_XML.sub("\ufffd", tostring(suites, encoding="unicode"))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _thresholds(summary: Summary) -> Iterator[Element]:
    for result in summary.thresholds:
        name = f"{result.threshold.name} {result.threshold.condition}"
        case = Element("testcase", classname="seatrial.thresholds", name=name)
        if not result.met:
            failure = SubElement(case, "failure", type="threshold", message=result.sentence)
            failure.text = result.sentence
        else:
            SubElement(case, "system-out").text = result.sentence
        yield case


def _findings(summary: Summary) -> Iterator[Element]:
    for number, finding in enumerate(each for each in summary.findings if each.severity != "note"):
        name = f"{finding.kind} {number + 1}"
        case = Element("testcase", classname="seatrial.findings", name=name)
        text = "\n".join(filter(None, [finding.sentence, finding.cause, finding.next]))
        if finding.severity == "critical":
            failure = SubElement(case, "failure", type=finding.kind, message=finding.sentence)
            failure.text = text
        else:
            SubElement(case, "system-out").text = text
        yield case
