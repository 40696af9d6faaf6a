"""Every command on real input: what it prints, what it leaves, how fast it answers."""

from __future__ import annotations

import csv
import io
import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import click
import pytest

from report.json_schema import assert_published
from seatrial.cli.main import seatrial as group
from seatrial.report.exports import FORMATS

from .command import SEATRIAL, seatrial

HELP_CPU_S_MAX = 0.150
IMPORT_CPU_S_MAX = 0.120
TRIES = 7

SHORT_STUDY = """
name = "short"
[rounds]
min = 2
max = 2
[[target]]
size = "4MiB"
[[workload]]
kind = "fill"
[[workload]]
kind = "matrix"
block_sizes = ["4KiB", "64KiB"]
threads = [1, 4]
seconds = 0.05
[thresholds]
"matrix.iops" = "{demand}"
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Path:
    """A folder with the results of one short run."""
    folder = tmp_path_factory.mktemp("measured")
    ended = run_short(folder, "> 0.001")
    assert ended.code == 0, ended.err
    return folder


def run_short(folder: Path, demand: str, *options: str):
    study = folder / "short.toml"
    study.write_text(SHORT_STUDY.replace("{demand}", demand), encoding="utf-8")
    return seatrial("study", study, "--target", folder, *options, folder=folder)


def test_a_run_ends_with_tables_verdict_and_report(measured):
    shown = seatrial("show", "--tables", folder=measured)
    assert shown.code == 0
    assert "Block size" in shown.out
    assert "10 threads" not in shown.out
    assert "4 threads" in shown.out
    reports = list(measured.glob("seatrial-reports/*.html"))
    assert reports
    assert reports[0].stat().st_size < 1_500_000
    assert not list(measured.glob(".seatrial-*")), "the trial folder is put away"


def test_a_breached_threshold_is_exit_code_3(tmp_path):
    ended = run_short(tmp_path, "> 1000000000", "--json")
    assert ended.code == 3
    assert ended.document["kind"] == "run"


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("list",), "runs"),
        (("show", "last"), "run"),
        (("export", "last"), "run"),
        (("report",), "report"),
        (("check", "."), "check"),
        (("clean", "--dry-run"), "clean"),
        (("study", "quick", "--plan"), "plan"),
        (("run", ".", "--plan"), "plan"),
        (("io", "null", "--seconds", "0.1", "--results", "other.seatrial"), "run"),
    ],
)
def test_json_is_one_document_as_its_schema_has_it(measured, arguments, kind):
    ended = seatrial(*arguments, "--json", folder=measured)
    assert (ended.code, ended.err) == (0, "")
    assert (ended.document["kind"], ended.document["schema"]) == (kind, 1)
    assert_published(ended.document)


def test_findings_and_samples_have_the_promised_names(measured):
    document = seatrial("show", "--json", folder=measured).document
    for finding in document["findings"]:
        assert {"kind", "severity", "cells", "sentence", "cause", "evidence", "next"} <= set(
            finding
        )
    sample = document["samples"][0]
    assert {"outcome", "operations", "stalls", "completed_per_s"} <= set(sample)
    outcome = sample["outcome"]
    parts = ("completed", "failed", "late_skipped", "in_flight_at_end")
    assert outcome["offered"] == sum(outcome[part] for part in parts)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_every_export_format(measured, name):
    output = measured / f"run.{name}"
    ended = seatrial("export", "last", "--format", name, "--output", output, folder=measured)
    assert ended.code == 0, ended.err
    text = output.read_text(encoding="utf-8")
    if name in ("json", "fio-json"):
        json.loads(text)
    elif name == "csv":
        assert len(list(csv.DictReader(io.StringIO(text)))) >= 8
    elif name == "fio-job":
        assert text.count("\nbs=4096\n") == 4
    elif name == "openmetrics":
        assert 'block_size_bytes="4096"' in text
    else:
        assert "4K" in text or "4 KiB" in text


def test_a_plan_touches_nothing(tmp_path):
    before = list(tmp_path.iterdir())
    ended = seatrial("study", "one-dvd-per-second", "--target", tmp_path, "--plan", folder=tmp_path)
    assert ended.code == 0
    assert "84" in ended.out
    assert list(tmp_path.iterdir()) == before


@pytest.mark.parametrize("of_files", [True, False])
def test_a_plan_says_what_a_run_would_refuse(tmp_path, of_files):
    large = ("io", ".", "--size", "100TiB") if of_files else ("db", ".", "--scale", "1000000")
    noted = seatrial(*large, "--plan", "--json", folder=tmp_path).document["notes"][-1]
    assert re.search(r"refused now: The trial needs .* TiB .* are available", noted)
    fits = seatrial("io", ".", "--size", "1MiB", "--plan", "--json", folder=tmp_path)
    assert fits.document["notes"] == []


def test_a_simulated_device_is_measured_in_an_instant(tmp_path):
    model = tmp_path / "frozen.toml"
    model.write_text("freezes = [{start_s = 100.0, length_s = 3.0}]\n", encoding="utf-8")
    arguments = ("io", "simulated", "--model", model, "--seconds", "600", "--json")
    ended = seatrial(*arguments, folder=tmp_path, timeout_s=30)
    (stall,) = ended.document["samples"][0]["stalls"]
    assert stall["start_s"] == pytest.approx(100.0, abs=0.01)
    assert stall["length_s"] == pytest.approx(3.0, abs=0.01)
    assert stall["cause"] == "device"


def cpu_s(*command: str) -> float:
    """The least processor time of several starts: what others take is not ours."""
    spent = []
    for _ in range(TRIES):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent)


def test_no_help_names_the_exceptions_of_a_function():
    context = click.Context(group)
    names = group.list_commands(context)
    commands = [group.get_command(context, name) for name in names]
    for command in commands:
        inner = command.commands.values() if isinstance(command, click.Group) else ()
        for each in (command, *inner):
            assert "Raises" not in (each.help or ""), each.name


def test_help_answers_within_150_ms_of_processor_time():
    assert cpu_s(SEATRIAL, "--help") < HELP_CPU_S_MAX


def test_the_import_costs_at_most_120_ms_of_processor_time():
    assert cpu_s(sys.executable, "-c", "import seatrial") < IMPORT_CPU_S_MAX
