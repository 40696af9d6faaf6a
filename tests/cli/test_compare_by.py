"""``compare --by``: runs of several machines side by side, from one or several results files."""

from __future__ import annotations

import msgspec
import pytest

from cli.command import seatrial
from report.json_schema import assert_published
from results.builders import make_cell, make_run, make_sample
from seatrial.fingerprint import Device, Fingerprint, Machine, Target
from seatrial.results.store import ResultsFile


def fingerprint(model: str, scheduler: str) -> Fingerprint:
    device = Device(name="sda", kind="disk", model=model, firmware="1", scheduler=scheduler)
    target = Target(path="/mnt/ssd", kind="directory", stack=[device])
    return Fingerprint(machine=Machine(kernel="6.1", cpus_online=2), target=target)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two runs on drive A and one on drive B, which has another scheduler and is elsewhere."""
    folder = tmp_path_factory.mktemp("by")
    for file, runs in (("a", [("A", "none", 1.0), ("A", "none", 1.1)]), ("b", [("B", "bfq", 2.0)])):
        with ResultsFile.open(folder / f"{file}.seatrial", create=True) as store:
            for number, (model, scheduler, duration_s) in enumerate(runs):
                run = make_run(
                    f"20261121-07450{number}-{file * 4}",
                    status="complete",
                    fingerprint_before=fingerprint(model, scheduler),
                )
                sample = make_sample(make_cell("read"))
                store.add_run(run, [msgspec.structs.replace(sample, duration_s=duration_s)])
            store.start_run(make_run(f"20261122-000000-{file * 4}", status="interrupted"))
    return folder


def test_runs_of_two_files_are_columns(folder):
    ended = seatrial("compare", "--by", "drive", "a.seatrial", "b.seatrial", folder=folder)
    assert (ended.code, ended.err) == (0, "")
    shown = " ".join(ended.out.split())
    assert "A (2 runs) B (1 run)" in shown
    assert "No difference of B is called significant" in shown
    assert "I/O scheduler of sda (none | bfq)" in shown
    assert "each may be the cause of a difference" in shown


def test_the_document_has_every_group(folder):
    ended = seatrial(
        *("compare", "--by", "drive", "a.seatrial", "b.seatrial", "--figure", "iops", "--json"),
        folder=folder,
    )
    assert_published(ended.document)
    found = ended.document["by_fact"]
    assert [(each["value"], len(each["run_ids"])) for each in found["groups"]] == [
        ("A", 2),
        ("B", 1),
    ]
    (row,) = found["rows"]
    assert row["differs"] == [None, None]
    several, once = row["values"]
    assert several["low"] < several["value"] < several["high"]
    assert (once["low"], once["rounds"]) == (None, 1)


def test_without_names_all_complete_runs_are_compared(folder):
    ended = seatrial("compare", "--by", "kernel", "--results", "a.seatrial", folder=folder)
    assert ended.code == 0
    assert "6.1 (2 runs)" in " ".join(ended.out.split())
    assert "All runs have the same kernel" in ended.out


@pytest.mark.parametrize(
    ("arguments", "code", "seen"),
    [
        ((), 2, "Missing argument"),
        (("--by", "colour"), 2, "colour"),
        (("--by", "drive", "nothing"), 2, "no results file"),
        (("--by", "drive"), 7, "does not exist"),
        (("--by", "drive", "a.seatrial", "--figure", "tps"), 2, "have no figure 'tps'"),
        (("--by", "drive", "a.seatrial", "--figure", "iops", "--figure", "x"), 2, "no figure 'x'"),
        (("--by", "drive", "a.seatrial", "--fail-if-slower", "5"), 2, "together with --by"),
        (("--by", "drive", "20261122", "--results", "a.seatrial"), 2, "no complete run"),
    ],
)
def test_what_cannot_be_compared_is_refused(folder, arguments, code, seen):
    ended = seatrial("compare", *arguments, folder=folder)
    assert (ended.code, ended.out, seen in ended.err) == (code, "", True), ended.err
