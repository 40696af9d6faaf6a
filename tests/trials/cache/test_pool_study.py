"""The workload ``l2arc``: its cells, what they cost, keys that are wrong."""

from __future__ import annotations

import pytest

from seatrial.errors import StudyError
from seatrial.study.cost import estimate
from seatrial.study.load import study_from_mapping
from seatrial.study.plan import make_plan
from seatrial.study.render import render_plan
from seatrial.trials.cache.measure.arcstats import Counters, added_unix_s, parse_kstat, series_of
from seatrial.trials.cache.measure.pool import settings_of
from seatrial.trials.cache.study.workload import spec_of
from seatrial.units import MIB


def plan_of(**keys):
    study = {"name": "pools", "rounds": {"min": 1, "max": 1}}
    return make_plan(study_from_mapping({**study, "workload": [{"kind": "l2arc", **keys}]}, "s"))


def test_every_combination_of_factors_is_a_cell():
    plan = plan_of(
        record_sizes=["8KiB", "32KiB"],
        pools=["striped", "raid-z"],
        clients=["direct", "cached"],
        arc=["32MiB", "64MiB"],
    )
    keys = [cell.key for cell in plan.cells]
    assert len(set(keys)) == 2**5
    assert keys[0] == "l2arc/read/8192B/8t/arc_bytes=33554432/cache=false"
    assert keys[-1].endswith("pool=raid-z/clients=cached/arc_bytes=67108864/cache=true")


def test_a_cell_says_what_is_built():
    with_device = spec_of(plan_of(cache=True, seconds=50, baseline_seconds=7).cells[0])
    without = spec_of(plan_of(cache=False, seconds=50, baseline_seconds=7).cells[0])
    assert (with_device.baseline_s, with_device.watched_s, with_device.has_cache) == (7, 50, True)
    assert (without.watched_s, without.has_cache) == (7, False)
    assert with_device.records * 8192 == 192 * MIB


def test_a_plan_says_space_time_and_what_is_changed():
    plan = plan_of()
    took = estimate(plan)
    spec = spec_of(plan.cells[0])
    assert took.database_bytes == 4 * spec.disk_bytes + spec.cache_bytes
    assert 24 + 82 < took.time_s_max < 24 + 82 + 40
    text = " ".join(render_plan(plan).split())
    for part in ("loop devices", "zfs-fuse", "control group", "4 disks, 150 reads/s each"):
        assert part in text


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"record_sizes": "12KiB"}, "record sizes of ZFS"),
        ({"record_sizes": "1MiB"}, "record sizes of ZFS"),
        ({"arc": "8MiB"}, "the least that zfs-fuse takes"),
        ({"cache_size": "1MiB"}, "smallest device of ZFS"),
        ({"pools": "raid-z", "disks": 2}, "at least 3"),
        ({"pools": "mirror"}, "striped"),
    ],
)
def test_keys_that_no_pool_can_have_are_refused(keys, said):
    with pytest.raises(StudyError) as refused:
        plan_of(**keys)
    assert said in " ".join(str(refused.value).split())


def test_a_pool_needs_a_directory():
    with pytest.raises(StudyError, match="need a directory"):
        make_plan(
            study_from_mapping(
                {
                    "name": "pools",
                    "target": [{"kind": "null"}],
                    "workload": [{"kind": "l2arc", "targets": ["trial"]}],
                },
                "s",
            )
        )


def test_the_daemon_has_no_cache_but_the_arc():
    settings = settings_of(spec_of(plan_of(arc="48MiB").cells[0])).splitlines()
    assert settings[0] == "max-arc-size = 48"
    assert {"vdev-cache-size = 0", "zfs-prefetch-disable", "disable-block-cache"} <= {*settings}


def test_counters_are_read_from_files_and_from_lines(tmp_path):
    folder = tmp_path / "arcstats"
    folder.mkdir()
    (folder / "size").write_text("123\n")
    (folder / "l2_hits").write_text("7\n")
    counters = Counters(folder)
    assert counters.exist()
    assert counters.read() == {"size": 123.0, "l2_hits": 7.0}
    assert not Counters(tmp_path / "none").exist()
    text = "13 1 0x01 96 4608 1 2\nname type data\nsize 4 99\nl2_hits 4 5\nother 4 1\n"
    (tmp_path / "lines").write_text(text)
    assert parse_kstat(text)["other"] == 1
    assert Counters(tmp_path / "lines").read() == {"size": 99.0, "l2_hits": 5.0}


def test_a_series_has_increases_and_values_of_each_second():
    readings = [
        (100.0 + half / 2, {"l2_hits": 10.0 * half, "l2_size": 1000.0 * half, "l2_feeds": 0.0})
        for half in range(9)
    ]
    series = series_of(readings, 100.5, 3.9)
    assert series.period_s == 1.0
    assert series.columns["device_hits_per_s"] == [20.0, 20.0, 20.0]
    assert series.columns["device_fill_bytes"] == [3000.0, 5000.0, 7000.0]
    assert series.columns["arc_hits_per_s"] == [None, None, None]
    # What lies outside of the readings is not known.
    assert series_of(readings, 103.0, 2.5).columns["device_hits_per_s"] == [20.0, None]


def test_a_device_is_there_when_its_feed_begins():
    readings = [(float(at), {"l2_feeds": float(max(0, at - 3))}) for at in range(6)]
    assert added_unix_s(readings, 5.0) == 3.0
    assert added_unix_s(readings[:3], 2.5) == 2.5
