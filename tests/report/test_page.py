"""The page as a file: its order, its safety against hostile text, its policy, its parts."""

from __future__ import annotations

import base64
import hashlib
import re
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.exports_hand import make_cell, make_threshold, summary_with
from report.page_reader import Node, embedded, read, unpacked
from report.sample_run import HOSTILE, make_run, sample_summary
from seatrial.cli.outcome import run_text
from seatrial.findings.model import Summary
from seatrial.fingerprint import Device, Filesystem, Fingerprint, Target
from seatrial.report import document as assets
from seatrial.report.markup import fill, joined, macro
from seatrial.report.page import render
from seatrial.report.sections import instruction, to_toml
from seatrial.stats.estimate import Estimate
from seatrial.stats.facts import fact_name, fact_text
from seatrial.stats.wording import NO_BREAK_SPACE, unbroken
from stats.builders import finding_of

BYTES_MAX = 600_000
REPORT = Path(assets.__file__).parent


@pytest.fixture(scope="module")
def summary() -> Summary:
    return sample_summary()


@pytest.fixture(scope="module")
def page(summary: Summary) -> str:
    return render(summary)


@pytest.fixture(scope="module")
def document(page: str) -> Node:
    return read(page)


def bare(**changes) -> Summary:
    return Summary(**{"run": make_run(), "cells": [], "findings": [], "verdict": "Fine."} | changes)


def test_the_parts_stand_in_the_order_in_which_they_are_requested(page: str, summary: Summary):
    marks = [
        "<h1>",
        'class="tiles"',
        'class="worst"',
        'class="confidence"',
        'class="next"',
        'class="profiles"',
        f"<p>{unbroken(summary.verdict)}</p>",
        'id="key"',
        'id="findings"',
        'id="charts"',
        'id="tables"',
        'id="machine"',
        'id="study"',
        'id="report-data"',
    ]
    places = [page.index(mark) for mark in marks]
    assert places == sorted(places)


def test_the_head_reports_what_each_target_is():
    stack = [Device(name="dm-0", children=["sdb"]), Device(name="sdb", model="MTRON")]
    target = Target(filesystem=Filesystem(type="xfs"), stack=stack)
    run = msgspec.structs.replace(
        make_run(),
        study={"target": [{"label": "ssd", "path": "/mnt/<ssd>"}, {"label": "nil", "path": ""}]},
        fingerprint_before=Fingerprint(target=target),
    )
    cells = [summary_with(make_cell(target=label), (1.0, 1.0, 1.0)) for label in ("ssd", "nil")]
    page = render(bare(run=run, cells=cells))
    assert "ssd: /mnt/&lt;ssd&gt;, xfs on sdb MTRON; nil</dd>" in page


def test_a_finding_says_severity_sentence_cause_next_and_evidence(document: Node):
    finding = document.one(id="findings").all("li", class_="finding critical")[0]
    assert finding.one("p", class_="severity").text == "Critical"
    heading = finding.one("h3").text.replace(NO_BREAK_SPACE, " ")
    assert heading.startswith("All writes stood still once, for 2.1 s")
    assert "Likely cause. The device: requests were in flight" in finding.text
    assert finding.one("code", class_="command").text == (
        "seatrial io /mnt/ssd --operation write --block-size 4KiB --threads 10 --duration 10m"
    )
    assert "length max 2.1 s" in finding.one("dl", class_="evidence").text
    assert finding.one(class_="cells").text == "ssd matrix: random write, 4 KiB, 10 threads"


def test_no_finding_is_said_in_words():
    findings = read(render(bare())).one(id="findings")
    assert findings.one("h2").text == "Findings: none"
    assert findings.text.endswith("None of the known faults was seen in what was measured.")


def test_a_threshold_that_a_lower_bound_does_not_show_is_not_called_breached():
    bound = Estimate(value=198, low=198, high=None, rounds=3, unit="IOPS")
    unknown = msgspec.structs.replace(make_threshold(worst=bound), doubtful=True)
    one = read(render(bare(thresholds=[unknown]))).one(id="thresholds")
    assert one.one("h2").text == "Threshold: not shown"
    summary = bare(thresholds=[unknown, make_threshold()])
    section = read(render(summary)).one(id="thresholds")
    assert section.one("h2").text == "Thresholds: 1 of 2 breached, 1 of 2 not shown"
    assert [each.text for each in section.all("p", class_="severity")] == ["Not shown", "Breached"]
    assert "NOT SHOWN matrix" in run_text(summary)


def test_breached_thresholds_are_reported_before_the_findings():
    page = render(bare(thresholds=[make_threshold(), make_threshold(met=True)]))
    section = read(page).one(id="thresholds")
    assert section.one("h2").text == "Thresholds: 1 of 2 breached"
    severities = [each.text for each in section.all("p", class_="severity")]
    assert severities == ["Breached", "Kept"]
    assert "matrix.p99_ms < 5: not met, 9 ms <b>." in section.text.replace(NO_BREAK_SPACE, " ")
    assert page.index('id="thresholds"') < page.index('id="findings"')
    assert 'href="#thresholds"' in page


def test_the_first_screen_names_the_breached_thresholds():
    page = read(render(bare(thresholds=[*[make_threshold()] * 5, make_threshold(met=True)])))
    lines = [each.text.split() for each in page.one("section", class_="worst").all("li")]
    assert [line[:2] for line in lines[:3]] == [["Threshold", "matrix.p99_ms"]] * 3
    assert lines[3] == ["and", "2", "more", "thresholds"]


def test_a_study_without_thresholds_has_no_word_of_them():
    assert "hreshold" not in read(render(bare())).one("main").text


def test_many_cells_and_long_evidence_are_folded():
    finding = finding_of(
        kind="k", severity="note", cause="c.", next="n.", sentence="s.",
        cells=[{"operation": "read", "block_size_bytes": 512, "threads": n} for n in range(1, 6)],
        evidence={"count": 5, "examples": [{"cell": "matrix/read", "at_s": 1.5}]},
    )  # fmt: skip
    folds = read(render(bare(findings=[finding]))).one(id="findings").all("details")
    assert [fold.all("summary")[0].text for fold in folds] == ["S", "Evidence", "5 tests"]
    assert [item.text for item in folds[2].all("li")] == [
        "read, 512 B, 1 thread", *(f"read, 512 B, {n} threads" for n in range(2, 6))
    ]  # fmt: skip
    assert "1.5 s" in folds[1].text


def test_hostile_text_is_text_wherever_it_comes_from(page: str, document: Node):
    assert "<script>alert(1)" not in page
    assert [script.attributes for script in document.all("script")] == [
        {"type": "text/plain", "id": "report-data"},
        {"type": "text/plain", "id": "packed-charts"},
        {"type": "text/plain", "id": "packed-script"},
        {},
    ]
    for part in ("findings", "machine", "study"):
        assert "<script>alert(1)</script><!--" in document.one(id=part).text


@given(text=st.text())
def test_any_text_comes_back_from_the_data_as_it_went_in(text: str):
    held = assets.data_text({"text": text})
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", held)
    block = read(f'<script type="text/plain" id="report-data">{held}</script>')
    script = block.one("script")
    assert embedded(block) == {"text": text}
    assert len(script.children) == 1


@given(text=st.text(), value=st.text())
def test_any_text_stays_text_in_a_template(text: str, value: str):
    made = fill("report/templates/findings_part.html", id=value, heading=text, listed="<i>")
    assert not re.search(
        r"[<>\"']", re.sub(r'<section id="|" aria-label="Findings">|</?\w+>', "", made)
    )
    if "\r" not in text + value and "\x00" not in text + value:
        node = read(made).one("section")
        assert node.attributes["id"] == value
        assert node.one("h2").text == text
        assert node.text == f"{text}<i>"


def test_headings_keep_numbers_with_their_units():
    text = "Reads reach 270k IOPS (± 3 %) with 4 KiB, 10 threads; the disk is 2.1 s late"
    expected = "Reads reach 270k~IOPS (±~3~%) with 4~KiB, 10~threads; the disk is 2.1~s late"
    assert unbroken(text) == expected.replace("~", NO_BREAK_SPACE)


def test_line_breaks_of_a_template_are_its_source_s_alone():
    source = "<p>\n  One {{ a }} or\n  two <i>{% if b\n and c %}</i>\n</p>\n<br>\n"
    assert joined(source) == "<p>One {{ a }} or two <i>{% if b  and c %}</i></p><br>"


def test_the_policy_admits_only_what_stands_in_the_page(document: Node):
    policy = document.one("meta", http_equiv="Content-Security-Policy").attributes["content"]
    rules = dict(rule.split(" ", 1) for rule in str(policy).split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    assert rules["base-uri"] == rules["form-action"] == "'none'"
    packed = [document.one("script", id=f"packed-{name}") for name in ("charts", "script")]
    loader = next(s for s in document.all("script") if "id" not in s.attributes)
    inline = {
        "script-src": [str(loader.children[0]), *map(unpacked, packed)],
        "style-src": [str(document.one("style").children[0])],
    }
    for rule, texts in inline.items():
        digests = [hashlib.sha256(text.encode()).digest() for text in texts]
        hashes = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]
        assert rules[rule] == " ".join(hashes)


def test_nothing_in_the_page_points_outside(document: Node):
    everything = document.all()
    for node in everything:
        assert not {"src", "srcset", "action", "style", "ping"} & node.attributes.keys()
        assert not [name for name in node.attributes if name.startswith("on")]
    links = [node.attributes["href"] for node in everything if "href" in node.attributes]
    targets = {node.attributes["id"] for node in everything if "id" in node.attributes}
    assert links
    assert {str(link) for link in links} <= {f"#{target}" for target in targets}
    assert not document.all("link")
    style = str(document.one("style").children[0])
    assert "@import" not in style
    assert "url(" not in style


def test_identifiers_are_unique(document: Node):
    identifiers = [n.attributes["id"] for n in document.all() if "id" in n.attributes]
    assert len(identifiers) == len(set(identifiers))


def test_the_own_script_asks_no_network():
    names = (assets.LOADER, *assets.SCRIPTS)
    own = "".join((REPORT / "assets" / name).read_text() for name in names)
    for word in ("fetch(", "XMLHttpRequest", "import(", "WebSocket", "sendBeacon", "http", "eval("):
        assert word not in own


def test_every_asset_is_in_the_page():
    files = {path.name for path in (REPORT / "assets").iterdir()}
    assert files == {assets.LOADER, *assets.SCRIPTS, *assets.STYLES, "index.css"}


def test_echarts_is_the_pinned_one_and_small():
    script = (REPORT / "vendor" / "echarts.min.js").read_bytes()
    pinned = (REPORT / "vendor" / "echarts.sha256").read_text()
    assert pinned == f"{hashlib.sha256(script).hexdigest()}  echarts.min.js\n"
    assert len(script) < 800_000
    licence = (REPORT / "vendor" / "LICENSE-echarts").read_text()
    for name in ("Apache License", "zrender", "BSD 3-Clause", "tslib", "d3.js"):
        assert name in licence
    assert "Apache Software Foundation" in (REPORT / "vendor" / "NOTICE-echarts").read_text()


def test_a_changed_echarts_is_refused(monkeypatch: pytest.MonkeyPatch):
    read_asset = assets.read_asset
    monkeypatch.setattr(
        assets,
        "read_asset",
        lambda path: read_asset(path) + ("\nspy();" if path.endswith("echarts.min.js") else ""),
    )
    with pytest.raises(assets.AssetError, match="Install seatrial again"):
        assets.echarts_script()


@pytest.mark.parametrize("text", ["a = '</script>'", "a = '<!-- <script>'", "</SCRIPT >"])
def test_an_asset_that_would_end_its_own_element_is_refused(text: str):
    with pytest.raises(assets.AssetError):
        assets.Inline("script", text)


def test_a_page_without_samples_says_so_and_has_no_empty_parts():
    document = read(render(bare(verdict="Nothing was measured.")))
    assert document.one("h1").text == "Nothing was measured."
    assert not document.all("figure")
    assert not document.all("table")
    assert not document.all(id="charts")
    assert [a.text for a in document.one("nav").all("a")] == [
        "Contents", "Findings", "Machine", "Study"
    ]  # fmt: skip


def test_an_unfinished_run_says_so_at_the_top():
    run = msgspec.structs.replace(make_run(), status="interrupted")
    header = read(render(bare(run=run))).one("header")
    assert header.one("p", class_="status").text.startswith("Interrupted:")
    assert "status" not in [n.attributes.get("class") for n in read(render(bare())).all("p")]


def test_two_renderings_are_the_same_bytes(summary: Summary, page: str):
    assert render(summary) == page


def test_the_page_is_small_enough_to_be_mailed(page: str):
    assert len(page.encode()) <= BYTES_MAX


@pytest.mark.parametrize(
    ("text", "commands", "names"),
    [
        ("Run 'seatrial check /mnt/ssd'.", ["seatrial check /mnt/ssd"], []),
        ("These cells' latency, the drive's cache.", [], []),
        ("Raise 'threads', then 'vmstat 1' ('top' too).", ["vmstat 1"], ["threads", "top"]),
        ("It's 'dmesg -T | tail -50', isn't it?", ["dmesg -T | tail -50"], []),
    ],
)
def test_quoted_commands_become_code_to_copy(text: str, commands: list[str], names: list[str]):
    node = read(f"<p>{instruction(text)}</p>").one("p")
    assert [code.text for code in node.all("code", class_="command")] == commands
    assert [c.text for c in node.all("code") if "class" not in c.attributes] == names
    assert node.text == re.sub(r"(?<!\w)'|'(?!\w)", "", text) or not commands


@pytest.mark.parametrize(
    ("name", "value", "said", "shown"),
    [
        ("length_s_max", 2.13, "length max", "2.1 s"),
        ("link_bytes_per_s", 3e8, "link", "300 MB/s"),
        ("memory_bytes", 64 * 2**30, "memory", "64 GiB"),
        ("device_in_flight_share", 0.99, "device in flight", "99 %"),
        ("run_queue_delay_ns", 1_200_000, "run queue delay", "1.20 ms"),
        ("speed_now_gt_s", 8.0, "speed now", "8 GT/s"),
        ("read_ahead_kib", 8192, "read ahead", "8 MiB"),
        ("temperature_c", 41, "temperature", "41 °C"),
        ("unix_s", 1_795_247_100.0, "time", "2026-11-21 07:45 UTC"),
        ("since_unix_s", 1_795_247_100.0, "since", "2026-11-21 07:45 UTC"),
        ("since_unix_s", 0.0, "since", "unknown"),
        ("rotational", False, "rotational", "no"),
        ("options", ["rw", "noatime"], "options", "rw, noatime"),
        ("cells_count", 12_345, "cells", "12,345"),
        ("model", None, "model", "unknown"),
    ],
)
def test_facts_are_said_in_their_units(name: str, value: object, said: str, shown: str):
    assert (fact_name(name), fact_text(name, value)) == (said, shown)


def test_what_is_not_known_is_named_on_one_line():
    facts = {"model": "X", "firmware": None, "pcie": {"width_now": None}, "tools": []}
    node = read(macro("report/templates/parts.html", "fact_list", facts))
    assert [part.text for part in node.all("dt")] == ["model", "not known or none"]
    assert node.all("dd")[-1].text == "firmware, pcie, tools"


TOML_VALUES = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(document=st.dictionaries(st.text(st.characters(codec="utf-8")), TOML_VALUES, max_size=5))
def test_the_study_can_be_read_again_as_it_was(document: dict[str, object]):
    assert tomllib.loads(to_toml(document)) == document


def test_the_study_in_the_page_is_the_one_of_the_run(document: Node):
    shown = tomllib.loads(document.one(id="study").one("pre").text)
    assert shown == make_run().study
    assert shown["title"] == HOSTILE


def test_what_toml_cannot_say_is_refused():
    with pytest.raises(TypeError, match="object"):
        to_toml({"a": object()})
    assert to_toml({"a": None, "b": [None, 1]}) == "b = [1]\n"
