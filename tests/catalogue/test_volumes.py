"""Each volume's rule at its corners, and what follows for its price."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.catalogue.store import Catalogue
from seatrial.catalogue.units import BytesPerS, Iops, SizeBytes
from seatrial.catalogue.volumes import (
    ProvisionedVolume,
    limits_of,
    monthly_bill,
    parse_volume,
    total_of,
)
from seatrial.errors import UsageError
from seatrial.units import GIB, MB, MIB

FACTS = Catalogue({}, today=datetime.date(2026, 11, 27))


@pytest.mark.parametrize(
    ("spec", "iops", "bytes_per_s"),
    [
        ("gp2:1GiB", 100, 128 * MIB),
        ("gp2:33GiB", 100, 128 * MIB),
        ("gp2:34GiB", 102, 128 * MIB),
        ("gp2:170GiB", 510, 128 * MIB),
        ("gp2:334GiB", 1002, 250 * MIB),
        ("gp2:5333GiB", 15999, 250 * MIB),
        ("gp2:16384GiB", 16000, 250 * MIB),
        ("gp3:1GiB", 3000, 125 * MIB),
        ("gp3:6GiB:3000:750", 3000, 750 * MIB),
        ("gp3:160GiB:80000:2000", 80000, 2000 * MIB),
        ("io1:100GiB:5000", 5000, 500 * MIB),
        ("io1:1000GiB:32000", 32000, 500 * MIB),
        ("io1:2000GiB:64000", 64000, 1000 * MIB),
        ("io2:4GiB:4000", 4000, 1000 * MIB),
        ("io2:256GiB:256000", 256000, 4000 * MIB),
        ("st1:125GiB", 500, 40 * 125 / 1024 * MIB),
        ("st1:16384GiB", 500, 500 * MIB),
        ("sc1:16384GiB", 250, 192 * MIB),
        ("Premium SSD P10:128GiB", 500, 100 * MB),
        ("Premium SSD P30:1024GiB", 5000, 200 * MB),
        ("Premium SSD v2:1GiB", 3000, 125 * MB),
        ("pd-standard:1000GiB", 750, 120 * MIB),
        ("pd-balanced:1000GiB", 9000, 420 * MIB),
        ("pd-ssd:10GiB", 6300, 244.8 * MIB),
        ("hyperdisk-balanced:4GiB", 3000, 140 * MIB),
        ("hyperdisk-extreme:1000GiB:100000", 100000, 5000 * MIB),
        ("rds-gp3:400GiB", 12000, 500 * MIB),
        ("block-nvme:10GiB", 10000, 400 * MIB),
    ],
)
def test_the_rule_of_a_volume(spec: str, iops: float, bytes_per_s: float):
    limits = limits_of(parse_volume(spec, FACTS))
    assert limits.iops == pytest.approx(iops)
    assert limits.bytes_per_s == pytest.approx(bytes_per_s)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("gp3:5GiB:4000", "4,000 IOPS, and it has 3,000 to 3,000"),
        ("gp3:10GiB:5001", "3,000 to 5,000"),
        ("gp3:1000GiB:3000:751", "125 to 750"),
        ("gp3:1000GiB:80001", "3,000 to 80,000"),
        ("gp3:1000GiB:2999", "3,000 to 80,000"),
        ("gp3:65537GiB", "1 to 65536"),
        ("io1:100GiB:5001", "0 to 5,000"),
        ("io1:100GiB", "no IOPS were given"),
        ("io2:100GiB:5000:500", "follows from its IOPS"),
        ("gp2:100GiB:3000", "follow from its size"),
        ("Premium SSD P10:129GiB", "65 to 128"),
        ("gp3", "is not a volume"),
        ("gp3:700GB", "ambiguous"),
        ("gp3:700GiB:many", "could not convert"),
        ("gp3:700GiB:-1", "not above 0"),
        ("gp33:700GiB", "no volume 'gp33'. Did you mean"),
    ],
)
def test_what_cannot_be_had_is_refused(spec: str, words: str):
    with pytest.raises(UsageError) as caught:
        limits_of(parse_volume(spec, FACTS))
    assert words in str(caught.value)


def test_bursts_last_as_long_as_the_providers_say():
    gp2 = limits_of(parse_volume("gp2:100GiB", FACTS)).iops_bucket
    assert gp2 is not None
    assert gp2.lasts_s(3000) == pytest.approx(2000)  # AWS's own table: 100 GiB, 2,000 s
    smallest = limits_of(parse_volume("gp2:1GiB", FACTS)).iops_bucket
    assert smallest is not None
    assert smallest.lasts_s(3000) == pytest.approx(1862, abs=1)  # AWS's own table: 1,862 s
    assert smallest.lasts_s(100) == float("inf")
    assert limits_of(parse_volume("gp2:1000GiB", FACTS)).iops_bucket is None
    p20 = limits_of(parse_volume("Premium SSD P20:512GiB", FACTS))
    assert p20.iops_bucket is not None
    assert p20.iops_bucket.lasts_s(3500) == 1800
    st1 = limits_of(parse_volume("st1:2048GiB", FACTS)).bytes_bucket
    assert st1 is not None
    assert st1.burst_per_s == 500 * MIB
    assert st1.credits_max == pytest.approx(2 * 1024**4)


def cost(spec: str) -> float:
    return total_of(monthly_bill(parse_volume(spec, FACTS), FACTS)).mid


def test_what_is_free_is_free_once_and_steps_have_their_own_price():
    assert cost("gp3:100GiB") == pytest.approx(8)
    assert cost("gp3:100GiB:3000:125") == pytest.approx(8)
    assert cost("gp3:100GiB:3001") == pytest.approx(8.005)
    assert cost("gp3:100GiB:3000:126") == pytest.approx(8.04)
    assert cost("io2:1000GiB:32000") == pytest.approx(125 + 2080)
    assert cost("io2:1000GiB:32001") == pytest.approx(125 + 2080 + 0.046)
    assert cost("io2:1000GiB:100000") == pytest.approx(125 + 2080 + 32000 * 0.046 + 36000 * 0.032)
    assert cost("Premium SSD P30:600GiB") == cost("Premium SSD P30:1024GiB") == 135.17
    bill = monthly_bill(parse_volume("standard:500GiB", FACTS), FACTS, requests_per_s=40)
    assert total_of(bill).mid == pytest.approx(25 + 40 * 730 * 3600 / 1e6 * 0.05)
    with pytest.raises(UsageError, match="charges each request"):
        cost("standard:500GiB")
    with pytest.raises(UsageError, match="no price for gcp/pd-balanced, capacity"):
        cost("pd-balanced:100GiB")


@given(st.integers(6, 65_536), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_more_of_a_gp3_never_costs_less(size_gib, iops, more_iops, through, more_through):
    def provisioned(share_iops: float, share_through: float) -> ProvisionedVolume:
        most = min(80_000, 500 * size_gib)
        amount = 3000 + max(0, most - 3000) * share_iops
        high = max(125, min(2000, 0.25 * amount))
        return ProvisionedVolume(
            volume=FACTS.volumes["aws/gp3"],
            size_bytes=SizeBytes(size_gib * GIB),
            iops=Iops(amount),
            bytes_per_s=BytesPerS((125 + (high - 125) * share_through) * MIB),
        )

    least = provisioned(iops * more_iops, 0)
    most = provisioned(iops, through * more_through)
    low, high = (total_of(monthly_bill(each, FACTS)).mid for each in (least, most))
    assert 0 < low <= high + 1e-9
