"""Loop devices with known limits stand in for volumes: the rate is predicted, the cap named."""

from __future__ import annotations

import datetime
import random
from pathlib import Path

import pytest

from cli.command import seatrial
from seatrial.catalogue.store import Catalogue
from seatrial.catalogue.volumes import parse_volume
from seatrial.results.store import ResultsFile
from seatrial.trials.plan.analysis import caps
from seatrial.trials.plan.analysis.answer import plan_of
from seatrial.trials.plan.analysis.candidates import SearchBounds, rented
from seatrial.trials.plan.analysis.demand import constant_demand
from seatrial.trials.plan.analysis.figure import exact
from seatrial.trials.plan.analysis.need import StorageNeed
from seatrial.trials.plan.analysis.scenarios import Scenarios
from seatrial.trials.plan.commands.load_source import demands_of_samples
from seatrial.units import GIB

pytestmark = [pytest.mark.root, pytest.mark.slow]

CASES = 20
FORESEEN_MIN = 18
NEED_PER_S = 50
TOLERANCE = 0.08
"""The kernel's first slice of a tenth of a second comes on top of what a limit allows."""
SECONDS = 2


def stand_in(iops: float, bytes_per_s: float) -> Catalogue:
    """A catalogue with one volume of these limits, on an instance that limits nothing."""
    planted = {"source": "planted by a test", "as_of": "2026-11-27"}
    month = {"unit": "month", "mid": 1.0, "currency": "USD", **planted}
    return Catalogue(
        {
            "volumes/rig/stand-in": {
                "rule": "fixed",
                "base_iops": iops,
                "base_mib_s": bytes_per_s / 2**20,
                "max_gib": 10.0,
                "throughput_unit": "MiB/s",
                **planted,
            },
            "prices/rig/stand-in/capacity/any": month | {"unit": "GiB-month"},
            "instances/rig/box": {"base_iops": 1e6, "base_mb_s": 1e5, **planted},
            "prices/rig/box/instance/any": month,
        },
        today=datetime.date(2026, 11, 27),
    )


def predicted_per_s(facts: Catalogue, size_bytes: int) -> float:
    """The rate that a plan says the stand-in holds, before anything is measured on it."""
    demand = constant_demand("typed", NEED_PER_S, 0, size_bytes)
    bounds = SearchBounds(
        iops=NEED_PER_S, bytes_per_s=NEED_PER_S * size_bytes, capacity_bytes=GIB, provider="rig"
    )
    need = StorageNeed(
        demand=demand,
        other_day=exact(1.0, "typed"),
        capacity=exact(GIB, "typed"),
        growth=exact(0.0, "typed"),
        years=0.0,
        objective=None,
    )
    plan = plan_of(rented(bounds, facts, {}), need, scenarios=Scenarios(10))
    return plan.choices[0].holds * NEED_PER_S


def measured(place: Path, folder: Path, group: Path, size_bytes: int):
    """A run of reads at depth 16 within the limits; the file was laid out without them."""
    done = seatrial(
        "io", place, "--block-size", str(size_bytes), "--depth", "16", "--size", "32MiB",
        "--seconds", str(SECONDS), "--no-report", folder=folder, group=group,
    )  # fmt: skip
    assert done.code == 0, done
    with ResultsFile.open(folder / "results.seatrial", read_only=True) as file:
        run = file.run("last")
        return run, file.samples(run.id)


def limit_reads(folder: Path, device: str, iops: int, bytes_per_s: int) -> None:
    for unit, per_s in (("iops", iops), ("bps", bytes_per_s)):
        (folder / f"blkio.throttle.read_{unit}_device").write_text(f"{device} {per_s}")


def test_a_plan_foresees_what_is_measured_and_the_planted_cap_is_named(
    file_system, group, tmp_path
):
    places = [file_system("ext4", number) for number in range(3)]
    forecast, named, cases = 0, 0, []
    for seed in range(CASES):
        draw = random.Random(seed)
        place = places[seed % len(places)]
        folder = tmp_path / str(seed)
        folder.mkdir()
        size = draw.choice([4096, 16384, 65536])
        planted = draw.choice(["IOPS", "throughput"])
        rate = draw.randint(200, 700)
        iops = rate if planted == "IOPS" else rate * 3
        bytes_per_s = rate * size * (3 if planted == "IOPS" else 1)
        facts = stand_in(iops, bytes_per_s)
        expected = predicted_per_s(facts, size)
        limit_reads(group.path, place.device, iops, bytes_per_s)
        run, samples = measured(place.folder, folder, group.path, size)
        provisioned = parse_volume("stand-in:1GiB", facts)
        found = caps.report_with_load(
            caps.caps_of_volume(provisioned, facts),
            demands_of_samples(run, samples),
            provisioned,
            None,
            None,
        )
        forecast += abs(samples[0].completed_per_s / expected - 1) <= TOLERANCE
        named += found.binding[0].quantity == planted
        cases.append((seed, planted, rate, expected, samples[0].completed_per_s, found.binding[0]))
    assert forecast >= FORESEEN_MIN, cases
    assert named == CASES, cases
