"""``seatrial audit`` with hardware that the user tells of."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command import seatrial

TABLE = Path(__file__).parents[3] / "report" / "bm-flash-2009-raid5.txt"


def test_the_articles_reads_are_served_by_a_cache(tmp_path):
    ended = seatrial(
        "audit", "--tables", TABLE, "--drives", "4", "--link", "sata2", folder=tmp_path
    )
    assert ended.code == 0, ended
    reported = " ".join(ended.out.split())
    assert "but the drives' links saturate at 1,200 MB/s (4 links, SATA 3 Gb/s)" in reported


def test_a_slot_and_a_cache_are_reported_too(tmp_path):
    options = ("--drives", "12", "--link", "3Gb/s", "--bus", "pcie1x4", "--controller-cache", "3G")
    ended = seatrial("audit", TABLE, *options, "--json", folder=tmp_path)
    found = {finding["kind"]: finding for finding in ended.document["findings"]}
    assert found["bound_broken"]["evidence"]["bound_bytes_per_s"] == 1e9
    assert found["bound_broken"]["evidence"]["bound_source"] == "declared"
    assert found["device_cache_served"]["severity"] == "warning"


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        (("--drives", "4"), "--drives is given without --link"),
        (("--link", "sata2"), "--link is given without --drives"),
        (("--drives", "4", "--link", "sata9"), "'sata9' is invalid"),
        (("--drives", "0", "--link", "sata2"), "0 is not in the range"),
        (("--bus", "pci"), "'pci' is invalid"),
        (("--memory", "8GB"), "is ambiguous (powers of 1000 or of 1024)"),
    ],
)
def test_what_is_reported_wrongly_is_refused(tmp_path, options, reported):
    ended = seatrial("audit", "--tables", TABLE, *options, folder=tmp_path)
    assert ended.code == 2
    assert reported in " ".join(ended.err.split())
