"""Every shipped row: its source, its date, its numbers; and that a broken one is reported."""

from __future__ import annotations

import csv
import datetime
from pathlib import Path

import pytest

from seatrial.catalogue.facts import Fact, Instance, Volume, first_day
from seatrial.catalogue.store import TABLES, Catalogue, read_own, write_own
from seatrial.catalogue.units import Money, SizeBytes
from seatrial.catalogue.volumes import (
    ProvisionedVolume,
    instance_bill,
    limits_of,
    limits_of_instance,
    monthly_bill,
    parse_volume,
    total_of,
)
from seatrial.errors import UsageError
from seatrial.units import GIB

FOLDER = Path(__file__).parents[2] / "catalogue"
TODAY = datetime.date(2026, 11, 27)


def shipped(own: dict[str, dict[str, object]] | None = None) -> Catalogue:
    return Catalogue(own or {}, today=TODAY, source_name="own.toml")


ROWS = [
    pytest.param(fact, id=f"{name}/{fact.key}")
    for name in TABLES
    for fact in shipped().table(name).values()
]


@pytest.mark.parametrize("fact", ROWS)
def test_a_row_has_source_and_a_date_that_is_not_in_the_future(fact: Fact):
    assert len(fact.source) > 8
    assert datetime.date(2020, 1, 1) < first_day(fact.as_of) <= TODAY
    assert not fact.typed


def test_every_row_of_every_file_is_read():
    rows = {
        name: sum(len(list(csv.DictReader((FOLDER / file).open()))) for file in files)
        for name, (_, files) in TABLES.items()
    }
    assert rows == {name: len(shipped().table(name)) for name in TABLES}
    assert sum(rows.values()) > 1200
    assert {path.name for path in FOLDER.glob("*.csv")} == {
        file for _, files in TABLES.values() for file in files
    }
    for file in (file for _, files in TABLES.values() for file in files):
        count = len(list(csv.DictReader((FOLDER / file).open())))
        assert f"| `{file}` | {count:,} |" in (FOLDER / "README.md").read_text()


@pytest.mark.parametrize("volume", [pytest.param(e, id=k) for k, e in shipped().volumes.items()])
def test_every_volume_has_limits_at_both_ends_of_its_sizes(volume: Volume):
    free = volume.free_iops or volume.base_iops
    ends = [volume.min_gib or 1, min(volume.max_gib, 65_536)]
    for size_gib in ends:
        iops = None if free or volume.rule not in ("provisioned", "io1") else 100
        size = SizeBytes(int(size_gib) * GIB)
        limits = limits_of(ProvisionedVolume(volume=volume, size_bytes=size, iops=iops))
        assert 0 < limits.iops <= volume.max_iops
        assert limits.bytes_per_s > 0
        for bucket in (limits.iops_bucket, limits.bytes_bucket):
            assert bucket is None or bucket.credits_max > 0


def test_half_of_the_instances_carry_less_for_ever_than_they_advertise():
    virtual = [each for each in shipped().instances.values() if each.provider == "aws"]
    bursting = [each for each in virtual if limits_of_instance(each).iops_bucket]
    assert (len(virtual), len(bursting)) == (1012, 473)
    assert sum(each.base_mb_s < 125 for each in virtual) == 154
    for each in virtual:
        bucket = limits_of_instance(each).bytes_bucket
        assert bucket is None or bucket.lasts_s(bucket.burst_per_s) == pytest.approx(1800)


def month(spec: str, instance: str, facts: Catalogue | None = None) -> Money:
    facts = facts or shipped()
    machine = facts.find("instances", instance)
    assert isinstance(machine, Instance)
    provisioned = parse_volume(spec, facts)
    return total_of([*monthly_bill(provisioned, facts), instance_bill(machine, facts)])


def test_the_published_months_of_2025_come_out_to_the_cent():
    assert round(month("gp3:700GiB:10000:500", "r7i.2xlarge").mid, 2) == 492.32
    assert round(month("io2:700GiB:16000", "r7i.2xlarge").mid, 2) == 1513.82
    assert round(instance_bill(shipped().instances["aws/i7i.2xlarge"], shipped()).money.mid, 2)
    larger = instance_bill(shipped().instances["aws/r7i.4xlarge"], shipped())
    assert larger.money.mid == pytest.approx(2 * 386.32)
    assert "in proportion to r7i.2xlarge" in larger.origin


def test_the_own_file_is_above_what_is_shipped(tmp_path: Path):
    path = tmp_path / "a/catalogue.toml"
    rows = {
        "prices/aws/gp3/capacity/us-east-1": {"mid": 0.07, "source": 'the "new" contract'},
        "rates/USD/EUR": {"ratio": 0.5, "as_of": "2026-11"},
    }
    for number, key in enumerate(rows, start=1):
        write_own(path, dict(list(rows.items())[:number]), key)
    assert read_own(path) == rows
    facts = shipped(read_own(path))
    price = facts.price("aws", "gp3", "capacity")
    assert price is not None
    assert (price.low, price.mid, price.high, price.unit) == (0.07, 0.07, 0.07, "GiB-month")
    assert price.origin(TODAY) == "typed, 2026-11-27"
    assert round(month("gp3:700GiB:10000:500", "r7i.2xlarge", facts).mid, 2) == 485.32
    prior = shipped({"latency/gp2 gp3/read": {"mid_ms": 50.0}}).latencies["gp2 gp3/read"]
    assert (prior.low_ms, prior.mid_ms, prior.high_ms) == (50, 50, 50)
    assert facts.in_currency(Money.of(10, "USD"), "EUR") == Money.of(5, "EUR")
    assert facts.in_currency(Money.of(10, "EUR"), "USD") == Money.of(20, "USD")


def test_comments_and_other_rows_of_the_own_file_remain(tmp_path: Path):
    path, row = tmp_path / "own.toml", "prices/aws/gp3/capacity/us-east-1"
    text = (
        f'# mine\n["{row}"]\n# contract 5\nmid = 0.07\nlow = 0.06 # why\n'
        '\n[ "rates/USD/EUR" ]\nratio=1'
    )
    path.write_text(text)
    own = read_own(path)
    own[row] = {**own[row], "mid": 0.1, "as_of": "2026"}
    write_own(path, own, row)
    assert read_own(path) == own
    assert (
        path.read_text()
        == text.replace("= 0.07", "= 0.1").replace("# why", '# why\nas_of = "2026"') + "\n"
    )
    del own["rates/USD/EUR"]
    write_own(path, own, "rates/USD/EUR")
    assert read_own(path) == own
    path.write_text('"rates/USD/EUR".ratio = 1.0\n')
    own = {"rates/USD/EUR": {"ratio": 2.0}}
    with pytest.raises(UsageError, match=r"by hand, with these lines: \[.rates/USD/EUR"):
        write_own(path, own, "rates/USD/EUR")
    assert read_own(path)["rates/USD/EUR"]["ratio"] == 1.0
    with pytest.raises(UsageError, match="Remove rates/USD/EUR from it by hand"):
        write_own(path, {}, "rates/USD/EUR")


EU = {
    f"prices/aws/{item}/eu-central-1": {"mid": mid, "currency": "USD", "unit": unit}
    for item, mid, unit in (
        ("io2/capacity", 0.2, "GiB-month"),
        ("io2/iops", 0.1, "IOPS-month"),
        ("r7i.2xlarge/instance", 500, "month"),
    )
}


def test_prices_of_two_regions_are_not_added():
    facts = shipped(EU)
    provisioned = parse_volume("io2:100GiB:40000", facts)
    with pytest.raises(UsageError, match="known for eu-central-1 and us-east-1"):
        monthly_bill(provisioned, facts)
    # The shipped steps above 32,000 IOPS are those of us-east-1.
    assert total_of(monthly_bill(provisioned, facts, "eu-central-1")).mid == 100 * 0.2 + 4000
    with pytest.raises(UsageError, match="known for eu-central-1 and us-east-1"):
        instance_bill(facts.instances["aws/r7i.4xlarge"], facts)
    # A price of any region is one of each, also for the family.
    anywhere = {
        "prices/aws/m7g.large/instance/any": {"mid": 70, "currency": "USD", "unit": "month"}
    }
    larger = instance_bill(facts.instances["aws/m7g.xlarge"], shipped(anywhere), "us-east-1")
    assert larger.money.mid == 140


def test_a_row_for_several_types_is_found_by_one_of_them():
    found = shipped().find("instances", "c3-standard-8")
    assert isinstance(found, Instance)
    assert (found.instance, found.base_iops) == ("c3-standard-8", 50_000)
    assert shipped().find("instances", "gcp/c3-highmem-22").key == "gcp/c3-highmem-22"
    assert shipped().instance_of("gcp", "c3-standard-9") is None


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"prices/aws/gp3/capacity/us-east-1": {"mid": -1}}, "are not a price"),
        ({"prices/aws/gp3/capacity/us-east-1": {"mid": "much"}}, "Expected `float`"),
        ({"prices/aws/gp3/capacity/us-east-1": {"currency": "dollars"}}, "not a code such as USD"),
        ({"prices/aws/gp3/capacity/us-east-1": {"pric": 1}}, "no field 'pric'"),
        ({"prices/aws/new/capacity/any": {"mid": 1}}, "unit"),
        ({"prices/aws/gp3/capacity/us-east-1": {"as_of": "yesterday"}}, "not a date"),
        ({"prices/aws/gp3/capacity/us-east-1": {"source": " "}}, "source is empty"),
        ({"rates/EUR/USD": {"ratio": 0}}, "ratio is 0"),
        ({"latency/gp2 gp3/read": {"high_ms": 0.01}}, "low_ms <= mid_ms <= high_ms"),
        ({"instances/aws/r7i.large": {"base_iops": 0}}, "base_iops is 0"),
    ],
)
def test_a_broken_row_is_reported_with_its_place(rows: dict[str, dict[str, object]], words: str):
    (key,) = rows
    with pytest.raises(UsageError, match=rf"own\.toml, {key}") as caught:
        shipped(rows).table(key.partition("/")[0])
    assert words in str(caught.value)


def test_currencies_are_not_mixed_and_no_rate_is_made_up():
    with pytest.raises(UsageError, match="USD and EUR cannot be added"):
        Money.of(1, "USD") + Money.of(1, "EUR")
    with pytest.raises(UsageError, match="No exchange rate from USD to EUR"):
        shipped().in_currency(Money.of(1, "USD"), "EUR")
    with pytest.raises(UsageError, match=r"no instance .r7i\.3xlarge"):
        shipped().find("instances", "r7i.3xlarge")
    with pytest.raises(UsageError, match="no table 'volume'"):
        shipped().table("volume")


def test_the_users_place_is_that_of_the_xdg_specification(monkeypatch, tmp_path):
    from seatrial.catalogue.store import own_file

    monkeypatch.delenv("SEATRIAL_CATALOGUE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert own_file() == tmp_path / "seatrial/catalogue.toml"
    monkeypatch.setenv("SEATRIAL_CATALOGUE", "mine.toml")
    assert own_file() == Path("mine.toml")
