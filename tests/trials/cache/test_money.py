"""What caches cost, with prices whose sums are known."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from seatrial.catalogue.store import Catalogue
from seatrial.catalogue.units import Money
from seatrial.errors import UsageError
from seatrial.trials.cache.analysis.money import Prices, parse_endurance, parse_price, prices_of
from seatrial.trials.cache.report.prediction_page import prediction_figures
from seatrial.trials.cache.report.prediction_phrases import doubts, notable
from seatrial.trials.cache.report.prediction_text import prediction_tables
from seatrial.units import GIB
from trials.cache.test_prediction import BLOCK, blocks_read, predict_caches, skewed

FACTS = Catalogue({}, today=datetime.date(2026, 11, 27))
WHOLE = 16384 * BLOCK


def tariff(*prices: str, endurance: str | None = None) -> Prices:
    return prices_of(prices, endurance, FACTS)


@pytest.mark.parametrize(
    ("text", "what", "amount"),
    [
        ("ram=3.50USD", "ram", 3.5),
        ("ssd=0.08EUR/GiB", "ssd", 0.08),
        ("ssd=102.4EUR/TiB", "ssd", 0.1),
        ("ssd=120EUR/TiB/5y", "ssd", 120 / 1024 / 60),
        ("ram=93.1322574615478515625USD/GB", "ram", 100.0),
        ("storage=0.005USD", "storage", 0.005),
        ("storage=0.6USD/IOPS/5y", "storage", 0.01),
    ],
)
def test_prices_are_of_a_gib_or_an_iops_a_month(text: str, what: str, amount: float):
    of, price = parse_price(text, FACTS)
    assert (of, price.origin) == (what, "typed")
    assert price.money.mid == pytest.approx(amount)


@pytest.mark.parametrize(
    "text",
    ["ram", "ram=", "cpu=3USD", "ssd=3USD/IOPS", "storage=3USD/GiB", "ssd=1EUR/GiB/0y"],
)
def test_what_is_no_price_is_refused(text: str):
    with pytest.raises(ValueError, match=text.split("=", maxsplit=1)[0]):
        parse_price(text, FACTS)


@pytest.mark.parametrize("text", ["ram=aws/gp3", "ssd=aws/gp9", "ssd=-1USD", "ssd=0.08usd"])
def test_what_the_catalogue_does_not_know_is_refused(text: str):
    with pytest.raises(UsageError, match="has no price"):
        parse_price(text, FACTS)


def test_two_currencies_are_refused():
    with pytest.raises(ValueError, match="EUR and USD"):
        tariff("ram=3EUR", "ssd=1USD")


def test_the_price_of_a_volume_is_that_of_the_catalogue_with_its_date():
    own = tariff("ssd=aws/gp3", "storage=aws/gp3")
    assert own.device is not None
    assert own.storage is not None
    assert (own.device.money.mid, own.storage.money.mid) == (0.08, 0.005)
    assert own.device.origin.startswith("aws/gp3/capacity/us-east-1: catalogue, 20")


def test_endurance_is_typed_or_that_of_a_drive():
    assert parse_endurance("3504TB", FACTS).total_bytes == 3504e12
    assert parse_endurance("1.5DWPD", FACTS).writes_per_day == 1.5
    drive = parse_endurance("Samsung/PM9A3", FACTS)
    assert (drive.writes_per_day, drive.total_bytes) == (1.0, None)
    with pytest.raises(UsageError, match="no drive"):
        parse_endurance("0TB", FACTS)


def test_memory_that_serves_half_costs_its_size_and_saves_half_the_reads():
    """100 blocks in turn are served by memory, as many others come once."""
    reads = np.empty(20_000, dtype=np.int64)
    reads[::2] = np.tile(np.arange(100), 100)
    reads[1::2] = 1000 + np.arange(10_000)
    found = predict_caches(
        blocks_read(reads, gap_ns=1_000_000),
        memory_bytes=[WHOLE],
        tariff=tariff("ram=8USD", "storage=0.01USD"),
    )
    (cost,) = found.costs
    assert cost.month.mid == pytest.approx(8 * WHOLE / GIB)
    assert cost.saved_reads_per_s == pytest.approx(500, rel=0.01)
    assert cost.storage_month == Money.of(0.01 * cost.saved_reads_per_s, "USD")
    assert cost.month_per_read is not None
    assert cost.month_per_read.mid == pytest.approx(1.0 / 500, rel=0.01)
    text = " ".join(notable(found))
    assert "costs 1.00 USD a month: 0.002 USD for each read per second" in text
    assert "The storage itself costs 5.00 USD per month for as many reads" in text


def test_an_ssd_is_compared_with_memory_and_wears_out():
    reads = skewed(60_000, blocks=8_000)
    found = predict_caches(
        blocks_read(reads),
        memory_bytes=[64 * BLOCK],
        device_bytes=[0, WHOLE],
        device_ns=[100_000],
        tariff=tariff("ram=8USD", "ssd=0.8USD", endurance="1DWPD"),
    )
    alone, both = found.costs
    assert alone.memory_alone_bytes is None
    assert alone.worn_out_years is None
    assert both.month.mid == pytest.approx(alone.month.mid + 0.8 * WHOLE / GIB)
    assert both.memory_alone_bytes is not None
    assert both.memory_alone_bytes > 1000 * BLOCK
    own = found.tiers[1]
    per_day = own.device_written_bytes_per_day / own.device_bytes
    assert both.worn_out_years == pytest.approx(5 / per_day)
    assert {each.id for each in prediction_tables(found)} >= {"cache-costs"}
    assert [each.id for each in prediction_figures(found)] == ["cache-curve", "cache-costs"]
    assert "endurance is used up after" in " ".join(notable(found))


def test_without_prices_nothing_is_said_of_money():
    found = predict_caches(blocks_read(skewed(20_000)))
    assert found.costs == []
    assert [each.id for each in prediction_figures(found)] == ["cache-curve"]
    assert "month" not in " ".join([*notable(found)])


def test_a_size_without_a_price_has_no_cost():
    found = predict_caches(
        blocks_read(skewed(20_000)), device_bytes=[0, WHOLE], tariff=tariff("ram=8USD")
    )
    assert [each.device_bytes for each in found.costs] == [0]


def test_the_origin_of_catalogue_prices_is_stated():
    made = blocks_read(skewed(20_000))
    found = predict_caches(made, tariff=tariff("ram=3USD", "storage=aws/gp3"))
    assert any("aws/gp3/iops" in each for each in doubts(found, made.about))
