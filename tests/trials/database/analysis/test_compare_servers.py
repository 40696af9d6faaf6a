"""Comparisons of databases say when the sides' servers make their rates no like things."""

import msgspec
import pytest

from seatrial.stats.compare.comparison import compare
from seatrial.stats.compare.model import Side, SideSamples
from stats.builders import run_of

from .hand import MACHINE, cell_of, record_of, rounds_of


def one_side(name, per_s=(100.0, 101.0, 99.0), **record):
    run = msgspec.structs.replace(run_of(before=MACHINE), id=name)
    samples = rounds_of(cell_of(), per_s, seconds=3, record=record_of(**record))
    return SideSamples(side=Side(name=name, run=run), samples=samples)


def warnings(a, b):
    (found,) = compare(a, [b])
    return " ".join(found.warnings)


def test_other_versions_are_said():
    reported = warnings(one_side("old"), one_side("new", server="PostgreSQL 18.6"))
    assert (
        "old was measured on PostgreSQL 15.20 and new was measured on PostgreSQL 18.6" in reported
    )


@pytest.mark.parametrize(
    ("setting", "value", "usual"),
    [
        ("fsync", "off", "on"),
        ("synchronous_commit", "off", "on"),
        ("full_page_writes", "off", "on"),
        ("wal_sync_method", "open_datasync", "fdatasync"),
        ("synchronous_standby_names", "s1", "empty"),
    ],
)
def test_a_server_that_keeps_less_is_said(setting, value, usual):
    reported = warnings(one_side("safe"), one_side("loose", settings={setting: value}))
    assert (
        f"{setting} is {usual} on safe and {value} on loose: the durability guarantees differ"
        in reported
    )


def test_equal_servers_are_nothing_to_warn_of():
    settings = {"fsync": "off", "shared_buffers": "1GB"}
    reported = warnings(one_side("a", settings=settings), one_side("b", settings={"fsync": "off"}))
    assert "keep" not in reported
    assert "measured on" not in reported
