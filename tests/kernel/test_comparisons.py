"""Two devices throttled for real: a quarter less is found, and of two equals nothing is said."""

from __future__ import annotations

import json
import shutil
import subprocess
from statistics import median

import pytest

from cli.command import seatrial
from kernel.trial import favour, favoured

pytestmark = pytest.mark.root

USUAL_PER_S, LOW_PER_S = 4000, 3000
TARGETS = {"first": USUAL_PER_S, "slow": LOW_PER_S, "again": USUAL_PER_S}
STUDY = """
name = "legs"
rounds = {{ min = 4, max = 4 }}
{targets}
[[workload]]
kind = "io"
block_sizes = "4KiB"
depths = 8
seconds = 2.05  # half a slice of the throttle after a whole number of them
"""
TARGET = """
[[target]]
label = "{label}"
path = "{folder}"
size = "16MiB"
"""


@pytest.mark.slow
def test_a_quarter_less_is_lower_and_equals_are_the_same(file_system, group, tmp_path):
    places = {label: file_system("ext4", number) for number, label in enumerate(TARGETS)}
    for label, place in places.items():
        group.limit(place.device, TARGETS[label])
    reported = [TARGET.format(label=label, folder=place.folder) for label, place in places.items()]
    (tmp_path / "study.toml").write_text(STUDY.format(targets="".join(reported)))
    measured = favoured("study", "study.toml", "--json", folder=tmp_path, prefix=group.entering)
    assert measured.code == 0, measured
    sides = ["last:first", "last:slow", "last:again"]
    # The first slice of a throttle is a twentieth of a sample: no margin may be narrower.
    requested = ["--figure", "iops", "--margin", "10", "--json"]
    compared = seatrial("compare", "--tables", *sides, *requested, folder=tmp_path)
    assert compared.code == 0, compared
    slow, again = compared.document["comparisons"]
    assert (slow["paired"], again["paired"]) == (True, True)

    ratio = slow["overall"]["iops"]
    assert slow["overall_answers"]["iops"]["answer"] == "lower"
    assert ratio["low"] <= LOW_PER_S / USUAL_PER_S <= ratio["high"]
    assert ratio["high"] / ratio["low"] < 1.2
    assert [each["kind"] for each in slow["findings"]] == ["regressed"]
    # The control group is the reason, and it is the first that is named.
    first = slow["differences"][0]
    assert (first["weight"], first["a"], first["b"]) == ("likely", USUAL_PER_S, LOW_PER_S)
    assert "cgroup limit" in first["words"]

    answer = again["overall_answers"]["iops"]
    assert (answer["answer"], again["findings"]) == ("same", [])
    assert again["overall"]["iops"]["value"] == pytest.approx(1, abs=0.05)
    assert not [each for each in again["differences"] if each["weight"] == "likely"]

    # Loop devices have no model: nothing says that they should be equally fast.
    kinds = {each["kind"] for each in measured.document["findings"]}
    assert "leg_imbalance" not in kinds
    assert "cgroup_throttle" in kinds


@pytest.mark.slow
def test_fio_agrees_with_the_exported_job_of_a_cell(file_system, group, tmp_path):
    if shutil.which("fio") is None:
        pytest.skip("needs fio: apt-get install fio")
    place = file_system("xfs")
    data = place.folder / "fio.dat"
    data.write_bytes(bytes(16 << 20))
    group.limit(place.device, LOW_PER_S)
    cell = ["--seconds", "2.05", "--depth", "8", "--rounds", "3", "--block-size", "4k"]
    ours = favoured(
        "io", data, *cell, "--label", "ours", "--json", folder=tmp_path, prefix=group.entering
    )
    assert ours.code == 0, ours
    export = ["export", "ours", "--format", "fio-job", "--output", "cells.fio"]
    assert seatrial(*export, folder=tmp_path).code == 0
    # The same job again and again is a job in several rounds.
    jobs = (tmp_path / "cells.fio").read_text()
    job = jobs[jobs.index("[io/") :]
    (tmp_path / "cells.fio").write_text(jobs + f"\n{job}" * 2)
    fio = [*group.entering, "fio", "--output-format=json+", "--output=fio.json", "cells.fio"]
    process = subprocess.Popen(fio, cwd=tmp_path, start_new_session=True)
    favour(process.pid)
    assert process.wait(60) == 0
    data.unlink()
    reported = seatrial("compare", "ours", "fio.json", "--json", folder=tmp_path)
    assert reported.code == 0, reported
    (comparison,) = reported.document["comparisons"]
    # A throttle lets requests pass in bursts, so that a median depends on how a program's requests
    # meet them (1.6x on a busy machine). The rate and, at a given depth, the mean do not.
    rates = [each for each in comparison["comparands"] if each["figure"] in ("iops", "bandwidth")]
    answers = comparison["overall_answers"]["iops"], *rates
    assert rates
    assert {each["answer"] for each in answers} <= {"same", "undecided"}, comparison["verdict"]
    ratios = [each["ratio"]["value"] for each in comparison["comparands"]]
    assert all(0.4 <= ratio <= 2.5 for ratio in ratios), comparison["verdict"]
    jobs = json.loads((tmp_path / "fio.json").read_text())["jobs"]
    fio_per_s = [each["read"]["iops"] for each in jobs]
    ours_per_s = [
        each["outcome"]["completed"] / each["duration_s"] for each in ours.document["samples"]
    ]
    assert median(fio_per_s) == pytest.approx(median(ours_per_s), rel=0.05)
    assert len(fio_per_s) == comparison["overall"]["iops"]["rounds"] == 3
