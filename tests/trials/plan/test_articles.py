"""What the articles of 2008 and 2010 bought, judged by the ranking of `plan` at prices of then.

They name no price of an SSD. So the question is turned round: up to which price of one is it the
choice? A hard disk is the unit of money where its own price is not known.
"""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from seatrial.catalogue.units import Money
from seatrial.trials.plan.analysis.answer import StoragePlan, plan_of
from seatrial.trials.plan.analysis.array import Array
from seatrial.trials.plan.analysis.candidates import Candidate, OwnDrive, RequestTimes, own_arrays
from seatrial.trials.plan.analysis.demand import constant_demand
from seatrial.trials.plan.analysis.figure import exact
from seatrial.trials.plan.analysis.need import StorageNeed
from seatrial.trials.plan.analysis.queueing import log_normal
from seatrial.trials.plan.analysis.scenarios import Scenarios
from seatrial.units import GB

ROOT = Path(__file__).parents[3]
SQL_2008 = "article, 2008-12-15"
PGBENCH_2010 = "article, 2010-08-08"
DISKS = "disks"
SERVICE = log_normal(0.5)
FEW = Scenarios(100)
"""Nothing is uncertain here: load, limits and prices are those of the articles."""


def rows(name: str) -> list[dict[str, str]]:
    with (ROOT / "reference" / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def published(name: str, column: str, **wanted: str) -> float:
    (found,) = (
        float(row[column])
        for row in rows(name)
        if all(row[key] == value for key, value in wanted.items())
    )
    return found


def drive(
    name: str, rates_per_s: tuple[float, float], size_gb: float, origin: str, price: Money
) -> OwnDrive:
    """A device of an article: its rates of reads and writes are measured, so they last."""
    reads_per_s, writes_per_s = rates_per_s
    times = RequestTimes(
        kind=name,
        mean_ms=exact(1000 / reads_per_s, origin),
        service=SERVICE,
        origin=origin,
    )
    return OwnDrive(
        name=name,
        drive_bytes=size_gb * GB,
        read_iops=reads_per_s,
        write_iops=writes_per_s,
        read_bytes_per_s=math.inf,
        write_bytes_per_s=math.inf,
        price=price,
        power_w=0.0,
        reads=times,
        writes=times,
        limits_share=exact(1.0, origin),
    )


def array(level: str, count: int, of: OwnDrive) -> Candidate:
    made = Array(level=level, drives=count, drive_bytes=of.drive_bytes)
    alike = exact(0.01, "assumed, alike for all")
    (found,) = own_arrays([(made, alike)], of, months=36, kwh=None)
    return found


def need(reads_per_s: float, writes_per_s: float, stored_gb: float, origin: str) -> StorageNeed:
    return StorageNeed(
        demand=constant_demand(origin, reads_per_s, writes_per_s, 4096),
        other_day=exact(1.0, origin),
        capacity=exact(stored_gb * GB, origin),
        growth=exact(0.0, origin),
        years=3.0,
        objective=None,
    )


def fewest(level: str, of: OwnDrive, wanted: StorageNeed) -> Candidate:
    """The smallest array of a drive that `plan` does not refuse."""
    for count in range(2, 100, 2):
        found = array(level, count, of)
        if plan_of([found], wanted, scenarios=FEW).choices:
            return found
    raise AssertionError(f"no {level} of {of.name} holds it")


class Judgement(NamedTuple):
    """One line of the table in docs/plan.md."""

    when: str
    load: str
    drive: OwnDrive
    level: str
    count: int
    instead: Candidate
    wanted: StorageNeed

    def plan(self, price: float) -> StoragePlan:
        """What `plan` says if one SSD costs so much."""
        dear = replace(self.drive, price=Money.of(price, self.instead.month.currency))
        made = [self.instead, array(self.level, self.count, dear)]
        return plan_of(made, self.wanted, scenarios=FEW)

    @property
    def pays_below(self) -> float | None:
        """The price of one SSD above which the other is cheaper; None where that does not fit."""
        if not plan_of([self.instead], self.wanted, scenarios=FEW).choices:
            return None
        return self.instead.month.mid * 36 / self.count

    @property
    def line(self) -> str:
        below = self.pays_below
        unit = self.instead.month.currency
        answer = "any price" if below is None else f"{below:,.3g} {unit}"
        if below is not None and unit != DISKS and below > 1000:
            answer = f"{below:,.0f} {unit}"
        refused = " (refused)" if below is None else ""
        cells = [
            self.when,
            self.load,
            f"{self.level} of {self.count} {self.drive.name}",
            f"{self.instead.name}{refused}",
            answer,
        ]
        return f"| {' | '.join(cells)} |"


def of_2008() -> list[Judgement]:
    """Logged SQL. A line reads what one disk read in its time: with it, the CPU used 4 to 16 %."""

    def device(name: str, column: str, size_gb: float, price: Money) -> OwnDrive:
        reads, writes = (
            published("xbench-2008.csv", column, test=f"random-4k-{each}") * 1e6 / 4096
            for each in ("read", "write")
        )
        return drive(name, (reads, writes), size_gb, SQL_2008, price)

    disk = device("hard disk", "single_hdd_mb_s", 500, Money.of(1, DISKS))
    paid = published("prices.csv", "price", what="Xserve RAID")
    xraid = device("Xserve RAID", "xraid_mb_s", 4000, Money.of(paid * 4000, "USD"))
    ssd = device("X25-E", "ssd_mb_s", 32, Money.of(0, "USD"))
    lines = "lines_per_second"
    most = published("sql-replay-2008.csv", lines, storage="2x-ssd-concatenated")
    of_disk = published("sql-replay-2008.csv", lines, storage="single-hdd", cache_rdd_mb="11000")
    found = []
    for rate in (most, most / 2):
        wanted = need(rate * disk.read_iops / of_disk, 0, 40, SQL_2008)
        for instead in (fewest("raid10", disk, wanted), array("raid0", 1, xraid)):
            found.append(
                Judgement("2008", f"{rate:,.0f} lines/s", ssd, "raid10", 4, instead, wanted)
            )
    return found


def of_2010() -> list[Judgement]:
    """TPC-B of pgbench. A transaction counts as a write of each drive that its data lie on."""
    paid = published("prices.csv", "price", what="hdd-1.5tb-7200rpm")
    sizes_gb = {"hdd-1.5tb-7200rpm": 1500, "hdd-300gb-10000rpm": 300, "ssd-100gb": 100}
    prices = {"hdd-1.5tb-7200rpm": Money.of(paid, "GBP")}
    one = Money.of(1, DISKS)
    found = []
    for test, stored_gb in (("1", 2.9), ("2", 45), ("3", 90)):
        of_name = {
            name: published("pgbench-2010.csv", "tps_client_1", benchmark=test, device=name)
            for name in sizes_gb
        }
        disks, fast, ssd = (
            drive(name, (tps, tps), sizes_gb[name], PGBENCH_2010, prices.get(name, one))
            for name, tps in of_name.items()
        )
        wanted = need(0, ssd.write_iops, stored_gb, PGBENCH_2010)
        for disk in (disks, fast):
            instead = fewest("raid10", disk, wanted)
            load = f"pgbench {test}, {ssd.write_iops:,.0f} tps"
            found.append(Judgement("2010", load, ssd, "raid1", 2, instead, wanted))
    return found


def test_the_documentation_has_the_table():
    text = (ROOT / "docs/plan.md").read_text(encoding="utf-8")
    missing = [each.line for each in (*of_2008(), *of_2010()) if each.line not in text]
    assert not missing, "\n" + "\n".join(missing)


@pytest.mark.parametrize("comparison", [*of_2008(), *of_2010()], ids=lambda each: each.line)
def test_the_ranking_turns_at_that_price(comparison: Judgement):
    below = comparison.pays_below
    ssd = array(comparison.level, comparison.count, comparison.drive).name
    if below is None:
        plan = comparison.plan(1e6)
        assert [each.name for each in plan.choices] == [ssd]
        assert [each.miss for each in plan.refused] == ["load"]
        return
    for factor, first in ((0.9, ssd), (0.99, ssd), (1.01, comparison.instead.name), (1.1, None)):
        plan = comparison.plan(below * factor)
        assert plan.choices[0].name == (first or comparison.instead.name)
        assert plan.choices[0].reads_origin.startswith("article, 20")
        if factor in (0.9, 1.1):
            assert len(plan.overlapping) == 1, "nothing is uncertain but at nearly the same price"


def test_what_they_bought_was_right_where_prices_are_known():
    xraid = {each.load: each.pays_below for each in of_2008() if "Xserve" in each.instead.name}
    assert xraid == {"8,198 lines/s": None, "4,099 lines/s": pytest.approx(11_000 / 4)}
    pounds = [each.pays_below for each in of_2010() if each.instead.month.currency == "GBP"]
    assert pounds == [pytest.approx(68.09 * disks / 2) for disks in (28, 12, 18)]
    # The load that an SSD served, in drives: as many as it is faster, twice for the mirror.
    assert [each.pays_below for each in of_2010() if each.pays_below and each.pays_below < 30] == [
        10, 4, 6,
    ]  # fmt: skip


def test_the_slower_ssd_of_2010_holds_more_where_the_article_was_surprised():
    tps = {
        (row["benchmark"], row["device"]): float(row["tps_client_1"])
        for row in rows("pgbench-2010.csv")
    }
    for test, holds in (("1", False), ("2", True), ("3", False)):
        own = tps[test, "ssd-128gb"]
        older = drive("ssd-128gb", (own, own), 128, PGBENCH_2010, Money.of(1, DISKS))
        plan = plan_of(
            [array("raid1", 2, older)],
            need(0, tps[test, "ssd-100gb"], 45, PGBENCH_2010),
            scenarios=FEW,
        )
        assert bool(plan.choices) is holds
