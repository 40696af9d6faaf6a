"""What the commands that show no run print with ``--json`` is as docs/schema/ says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from jsonschema import Draft202012Validator

from report import json_schema
from report.exports_hand import make_finding
from seatrial.cli.check_command import check_server
from seatrial.cli.documents import CleanDocument, ReportDocument, check_document, plan_document
from seatrial.findings.context import Context
from seatrial.findings.registry import find, kinds, preflight
from seatrial.fingerprint import Fingerprint
from seatrial.machine.fingerprint import take_fingerprint
from seatrial.machine.undo_journal import Undone
from seatrial.machine.undoers import UNDOERS, Outcome
from seatrial.published import publish
from seatrial.study.cost import prefill_bytes
from seatrial.study.load import load_study, parse_study, shipped_studies
from seatrial.study.model import TargetInfo
from seatrial.study.plan import make_plan
from seatrial.trials.layouts.build.check import check_layouts
from stats.builders import run_of, sample_of, summary_of


def assert_as_published(text: str) -> dict:
    document = json.loads(text)
    json_schema.assert_published(document)
    return document


@pytest.mark.parametrize("name", shipped_studies())
def test_the_plan_of_a_shipped_study(name: str):
    plan = make_plan(load_study(name))
    document = assert_as_published(plan_document(plan))
    assert [cell["key"] for cell in document["cells"]] == [cell.key for cell in plan.cells]
    assert document["plan_hash"] == plan.plan_hash
    round_bytes = sum(cell["write_bytes_max"] for cell in document["cells"])
    estimate = document["estimate"]
    round_bytes += estimate["building_write_bytes"]
    assert estimate["write_bytes_min"] == prefill_bytes(plan) + estimate["rounds_min"] * round_bytes


def test_the_plan_of_a_device_a_simulation_and_notes():
    study = parse_study(
        'name = "s"\n[[target]]\nlabel = "a"\npath = "/dev/sdx"\n'
        '[[target]]\nlabel = "b"\nkind = "simulated"\n[target.model]\nchannels = 2\n'
        '[[workload]]\nkind = "copy"\n[[workload]]\nkind = "io"\ndata = "compressible"\n',
        "s.toml",
    )
    plan = make_plan(study, {"a": TargetInfo(kind="device", size_bytes=1 << 30)})
    document = assert_as_published(plan_document(plan))
    assert [target["kind"] for target in document["targets"]] == ["device", "simulated"]
    assert any("copy is skipped on a" in note for note in document["notes"])


def test_a_check_of_this_machine(tmp_path: Path):
    fingerprint = take_fingerprint(tmp_path)
    findings = preflight(fingerprint)
    text = check_document(fingerprint, findings, check_server(tmp_path), check_layouts())
    document = assert_as_published(text)
    assert document["fingerprint"]["target"]["path"] == str(tmp_path)
    assert (document["server"]["uid"] is None) == bool(document["server"]["obstacle"])
    assert "single" in [each["name"] for each in document["layouts"]["backends"]]


def test_a_check_with_a_finding():
    text = check_document(Fingerprint(), [make_finding()], None, check_layouts())
    document = assert_as_published(text)
    assert document["findings"][0]["severity"] == "critical"


def test_every_kind_of_undoing():
    rows = [
        Undone(run_id="r", kind=kind, subject="x", outcome=outcome, detail="gone")
        for kind in (*UNDOERS, "journal")
        for outcome in Outcome
    ]
    document = assert_as_published(CleanDocument(undone=rows).as_text())
    assert len(document["undone"]) == len(rows)
    assert_as_published(CleanDocument(undone=[]).as_text())


def test_a_report_says_where_it_is():
    assert_as_published(ReportDocument(run_id="r", path="a b.html").as_text())


def test_every_kind_is_published_and_explained():
    reported = (json_schema.FOLDER.parent / "json.md").read_text()
    linked = re.findall(r"^\| `(\w+)` \|.*\(schema/(\w+)\.schema\.json\)", reported, re.MULTILINE)
    # The schemas are generated from the documents, and `make lint` compares them.
    published = {path.name.removesuffix(".schema.json") for path in json_schema.FOLDER.iterdir()}
    assert sorted(linked) == sorted((kind, kind) for kind in published - {"figures"})


def test_the_evidence_of_every_kind_of_finding_is_declared_and_kept():
    schema = json.loads((json_schema.FOLDER / "figures.schema.json").read_text())
    assert [each["properties"]["kind"]["const"] for each in schema["anyOf"]] == sorted(kinds())
    long = sample_of(duration_s=2.0, counters={"cpu_quota_ns": 1e9, "steal_ns": 1e9})
    found = find(Context(run_of(), [summary_of(long)]))
    assert {"cpu_quota", "noisy_machine"} <= {each.kind for each in found}
    for finding in json.loads(msgspec.json.encode(publish(found))):
        Draft202012Validator(schema).validate(finding)
    wrong = {"kind": "cpu_quota", "evidence": {"samples_count": "many"}}
    assert not Draft202012Validator(schema).is_valid(wrong)
