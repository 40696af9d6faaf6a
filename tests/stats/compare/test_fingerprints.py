"""What differs in two fingerprints, in words."""

import pytest

from seatrial.machine.fingerprint.whole import differences
from seatrial.stats.compare.fingerprints import (
    described,
    facts_of,
    named_alike,
    summary_phrase,
    value_phrase,
)
from stats.builders import sample_of
from stats.compare.sides import side_of


def stack(*nodes):
    return {"target": {"stack": [dict(node) for node in nodes]}}


def words(a, b):
    return described(differences(*named_alike(a, b)))


def test_likely_reasons_come_first_in_words():
    a = stack({"name": "sda", "kind": "disk", "scheduler": "none", "firmware": "1.0"})
    b = stack({"name": "sda", "kind": "disk", "scheduler": "bfq", "firmware": "1.1"})
    reported = words(
        a | {"machine": {"kernel": "6.1", "swap_total_bytes": 0}, "seatrial": {"version": "1"}},
        b | {"machine": {"kernel": "6.2", "swap_total_bytes": 9}, "seatrial": {"version": "2"}},
    )
    assert [(each.words, each.weight) for each in reported] == [
        ("firmware of sda", "likely"),
        ("I/O scheduler of sda", "likely"),
        ("kernel", "likely"),
        ("version of Seatrial", "likely"),
        ("machine, swap total bytes", "minor"),
    ]
    assert (reported[1].path, reported[1].a, reported[1].b) == (
        "target.stack[sda].scheduler",
        "none",
        "bfq",
    )
    assert summary_phrase(reported) == (
        "firmware of sda (1.0, 1.1), I/O scheduler of sda (none, bfq), kernel (6.1, 6.2) and 1 more"
    )
    assert summary_phrase([]) == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pcie": {"address": "0000:81:00.0"}}, "PCIe address (slot) of sda"),
        ({"pcie": {"width_now": 2}}, "PCIe lanes of sda"),
        ({"pcie": {"narrowest": {"width_now": 1}}}, "narrowest PCIe link of sda: width now"),
        ({"sata_link_gb_s": 3.0}, "SATA link of sda"),
        ({"numa_node": 1}, "NUMA node of sda"),
        ({"write_cache": "write through"}, "write cache of sda"),
        ({"md": {"chunk_bytes": 65536}}, "array sda: chunk bytes"),
        ({"model": "Other"}, "model of sda"),
    ],
)
def test_what_usually_explains_a_difference_has_words_of_its_own(change, said):
    usual = {
        "name": "sda", "kind": "disk", "model": "One", "numa_node": 0, "sata_link_gb_s": 6.0,
        "write_cache": "write back", "md": {"chunk_bytes": 4096},
        "pcie": {"address": "0000:01:00.0", "width_now": 4, "narrowest": {"width_now": 4}},
    }  # fmt: skip
    changed = usual | {
        key: usual[key] | value if isinstance(value, dict) else value
        for key, value in change.items()
    }
    (reported,) = words(stack(usual), stack(changed))
    assert (reported.words, reported.weight) == (said, "likely")


def test_file_system_and_mount_options_are_likely():
    a = {"target": {"filesystem": {"type": "ext4", "mount_options": ["rw"]}}}
    b = {"target": {"filesystem": {"type": "btrfs", "mount_options": ["rw", "nobarrier"]}}}
    assert [each.words for each in words(a, b)] == ["file system", "mount options"]


def test_devices_of_other_names_are_held_against_each_other():
    a = stack({"name": "dm-0", "kind": "dm"}, {"name": "sda", "kind": "disk", "scheduler": "none"})
    b = stack({"name": "dm-7", "kind": "dm"}, {"name": "sdb", "kind": "disk", "scheduler": "bfq"})
    (reported,) = words(a, b)
    assert (reported.words, reported.path) == (
        "I/O scheduler of sda",
        "target.stack[sda].scheduler",
    )
    # Equal names stay with each other, whatever their order.
    two = stack({"name": "sda", "kind": "disk", "size_bytes": 1}, {"name": "sdb", "kind": "disk"})
    turned = stack(
        {"name": "sdb", "kind": "disk"}, {"name": "sda", "kind": "disk", "size_bytes": 1}
    )
    assert words(two, turned) == []


def test_what_is_unknown_on_one_side_is_minor_and_what_explains_nothing_is_left_out():
    a = stack({"name": "sda", "kind": "disk", "firmware": None, "major_minor": "8:0"})
    b = stack({"name": "sda", "kind": "disk", "firmware": "1.1", "major_minor": "8:16"})
    (reported,) = words(a, b)
    assert (reported.words, reported.weight, reported.a) == ("firmware of sda", "minor", None)


def run_before():
    return {
        "machine": {"kernel": "6.1"},
        "seatrial": {"version": "0.1.0"},
        "target": {"path": "/mnt/a"},
        "other_targets": {"b": {"path": "/mnt/b"}},
    }


def test_each_target_of_a_run_has_its_own_facts():
    samples = [sample_of()]
    first = side_of("a", samples, target="a", before=run_before())
    other = side_of("b", samples, target="b", before=run_before())
    assert facts_of(first)["target"]["path"] == "/mnt/a"
    assert facts_of(other)["target"]["path"] == "/mnt/b"
    assert "other_targets" not in facts_of(first)
    assert facts_of(first)["engine"] == "psync"


def test_limits_of_a_control_group_are_reported_of_the_device_that_they_limit():
    def limited_run(name, number, limits):
        stack = [{"name": name, "kind": "loop", "major_minor": number}]
        groups = {"cpu_limit_cpus": None, "io_limits": limits}
        before = {"machine": {"cgroup": groups}, "target": {"stack": stack}}
        return facts_of(side_of(name, [sample_of()], before=before))

    here = limited_run("loop0", "7:0", {"7:0": {"reads_per_s": 4000}, "8:0": {"writes_per_s": 1}})
    there = limited_run("loop1", "7:1", {"7:1": {"reads_per_s": 3000, "read_bytes_per_s": 9}})
    reported = words(here, there)
    assert [(each.words, each.weight, each.a, each.b) for each in reported] == [
        ("cgroup limit on loop0: read bytes per s", "likely", "none", 9),
        ("cgroup limit on loop0: reads per s", "likely", 4000, 3000),
    ]


def test_of_an_imported_result_nothing_is_known():
    assert facts_of(side_of("fio.json", [sample_of()], before={})) == {}


def test_a_simulated_device_differs_in_its_model_not_in_the_machine():
    study = {"target": [{"label": "a", "model": {"channels": 1}}, {"label": "b", "model": {}}]}
    facts = facts_of(
        side_of("a", [sample_of(engine="simulated")], target="a", study=study, before=run_before())
    )
    assert facts["simulated"] == {"channels": 1}
    assert "machine" not in facts


def test_a_whole_device_is_reported_by_its_first_facts():
    device = {"name": "sda", "model": None, "kind": "disk", "size_bytes": 1 << 40, "parents": []}
    node = device | {f"fact_{number}": number for number in range(20)}
    reported = value_phrase("target.stack[sda]", node)
    assert reported == "name sda, kind disk, size 1 TiB and 22 more"
    assert value_phrase("machine.limits", {"cpu": 2}) == '{"cpu":2}'
