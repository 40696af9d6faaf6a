"""Checks of several hosts: each rule just above its limit and below."""

from __future__ import annotations

import json

import msgspec
import pytest

from seatrial.findings.registry import find_in_hosts
from seatrial.fingerprint import Fingerprint, Machine
from seatrial.results.fleet import ClockOffset, Reachability, Throughput
from seatrial.trials.fleet.analysis.hosts import FleetFacts, HostAbsent, HostFacts
from seatrial.trials.fleet.documents import FleetCheckDocument
from seatrial.trials.fleet.report.check_text import hosts_table, reach_table, verdict_line

MACHINE = Machine(cpus_online=8, kernel="6.1", cpu_model="X", memory_bytes=32 << 30)
CLOCK = ClockOffset(
    offset_ns=-3_000_000_000,
    bound_ns=50_000,
    wall_offset_ns=0,
    round_trip_ns_p50=120_000,
    round_trip_ns_min=100_000,
    read_at_ns=1,
)


def host(name, **changes):
    whole = HostFacts(
        name=name,
        address="10.0.0.1",
        is_head=False,
        ray_cpus=7.0,
        seatrial="0.1.0",
        python="3.11.7",
        load_per_cpu=0.1,
        clock=CLOCK,
        reached=[],
        to_head=Throughput(bytes_per_s=1e9, sent_bytes=1),
        obstacle="",
        fingerprint=Fingerprint(machine=MACHINE),
        findings=[],
    )
    return msgspec.structs.replace(whole, **changes)


def facts(*hosts, absent=()):
    return FleetFacts(
        address="10.0.0.1:6379",
        ray="2.60.0",
        hosts=list(hosts),
        absent=list(absent),
        connected_s=1.0,
        started_s=2.0,
        listed_hosts_count=len(hosts) + len(absent),
    )


def kinds(found):
    return [(each.kind, each.severity) for each in find_in_hosts(found)]


def test_hosts_that_are_alike_have_no_findings_even_with_clocks_far_apart():
    assert kinds(facts(host("a"), host("b"), host("c"))) == []
    assert verdict_line(facts(host("a"), host("b")), []) == "2 hosts, ready to measure."


def test_an_absent_host_is_critical_and_named():
    gone = HostAbsent(name="c", how="failed", waited_s=3.0, detail="No module named 'seatrial'")
    (found,) = find_in_hosts(facts(host("a"), absent=[gone]))
    assert (found.kind, found.severity) == ("host_absent", "critical")
    assert found.sentence.startswith("c does not take part (failed after 3.0 s): No module named")
    assert verdict_line(facts(host("a"), absent=[gone]), [found]).startswith("1 of 2 hosts; 1 prob")


@pytest.mark.parametrize(
    ("change", "severity"),
    [
        ({"seatrial": "0.2.0"}, "critical"),
        ({"python": "3.11.2"}, "note"),
        ({"fingerprint": Fingerprint(machine=Machine(kernel="6.2"))}, "warning"),
    ],
)
def test_one_host_that_differs_is_named(change, severity):
    found = find_in_hosts(facts(host("a"), host("b"), host("c", **change)))[0]
    assert (found.kind, found.severity) == ("hosts_differ", severity)
    assert "c has" in found.sentence
    assert "a has" not in found.sentence
    assert "; the others have " in found.sentence
    (two, *_) = find_in_hosts(facts(host("a"), host("c", **change)))
    assert "a has " in two.sentence
    assert "c has " in two.sentence
    assert "the others" not in two.sentence


def test_memory_of_the_same_size_but_for_what_firmware_takes_is_alike():
    less = msgspec.structs.replace(MACHINE, memory_bytes=(32 << 30) - (100 << 20))
    assert kinds(facts(host("a"), host("b", fingerprint=Fingerprint(machine=less)))) == []


def test_a_clock_is_judged_by_its_bound():
    def with_bound(bound_ns):
        return host("b", clock=msgspec.structs.replace(CLOCK, bound_ns=bound_ns))

    assert kinds(facts(host("a"), with_bound(2_500_000))) == []
    assert kinds(facts(host("a"), with_bound(2_500_001))) == [("clock_not_comparable", "warning")]
    assert kinds(facts(host("a"), host("b", clock=None))) == [("clock_not_comparable", "warning")]


def test_a_time_of_day_that_is_off_is_a_note():
    off = host("b", clock=msgspec.structs.replace(CLOCK, wall_offset_ns=-3_000_000_000))
    (found,) = find_in_hosts(facts(host("a"), off))
    assert (found.kind, found.severity) == ("clock_not_comparable", "note")
    assert "The time of day of b is 3.0 s behind this machine" in found.sentence


def test_this_machine_is_named_when_all_hosts_agree():
    clocks = [
        msgspec.structs.replace(CLOCK, wall_offset_ns=wall_ns)
        for wall_ns in (3_000_000_000, 3_200_000_000)
    ]
    a, b = (host(name, clock=clock) for name, clock in zip("ab", clocks, strict=True))
    (found,) = find_in_hosts(facts(a, b))
    assert (found.kind, found.severity) == ("clock_not_comparable", "note")
    assert found.sentence == "The time of day of this machine is 3.1 s behind that of all hosts."
    apart = msgspec.structs.replace(CLOCK, wall_offset_ns=-3_000_000_000)
    both = find_in_hosts(facts(a, host("b", clock=apart)))
    assert [each.figures.host for each in both] == ["a", "b"]


def test_a_target_that_some_hosts_cannot_use():
    seen = Reachability(target="/mnt", source="s:/e", filesystem="nfs4", is_writable=True)
    unseen = Reachability(target="/mnt", obstacle="it does not exist")
    found = find_in_hosts(facts(host("a", reached=[seen]), host("b", reached=[unseen])))
    assert found[0].sentence == "b cannot use /mnt: it does not exist."
    read_only = msgspec.structs.replace(seen, is_writable=False)
    found = find_in_hosts(facts(host("a", reached=[seen]), host("b", reached=[read_only])))
    assert found[0].sentence == "b cannot use /mnt: it is not writable."


def test_mount_options_of_a_network_file_system_that_differ():
    def mounted(options, kind="nfs4"):
        return [
            Reachability(
                target="/m",
                source="s:/e",
                filesystem=kind,
                mount_options=options,
                is_writable=True,
            )
        ]

    a = host("a", reached=mounted(["rw", "vers=4.2", "clientaddr=10.0.0.2"]))
    same = host("b", reached=mounted(["rw", "vers=4.2", "clientaddr=10.0.0.3"]))
    other = host("b", reached=mounted(["rw", "vers=3"]))
    assert kinds(facts(a, same)) == []
    assert kinds(facts(a, other)) == [("mounts_differ", "warning")]
    on_disk = [host(n, reached=mounted([o], "ext4")) for n, o in (("a", "rw"), ("b", "noatime"))]
    assert kinds(facts(*on_disk)) == []


def test_a_link_is_slower_below_half_of_the_median():
    def linked(name, bytes_per_s):
        return host(name, to_head=Throughput(bytes_per_s=bytes_per_s, sent_bytes=1))

    others = [linked("a", 1e9), linked("b", 1e9)]
    assert kinds(facts(*others, linked("c", 0.5e9))) == []
    assert kinds(facts(*others, linked("c", 0.49e9))) == [("host_link_slower", "warning")]
    cut = host("c", to_head=None, obstacle="timed out")
    assert kinds(facts(*others, cut)) == [("host_link_slower", "critical")]


def test_a_processor_is_left_for_the_daemons():
    assert kinds(facts(host("a", ray_cpus=8.0))) == [("no_processor_left", "note")]


def test_tables_and_document_have_every_host():
    reached = [Reachability(target="10.0.0.9:5432", connect_ns=150_000)]
    found = facts(host("a", is_head=True, reached=reached), host("b", reached=reached))
    assert [row[0] for row in hosts_table(found).rows] == ["a head", "b"]
    assert reach_table(found).rows[0] == ["10.0.0.9:5432", "a", "usable", "–", "150 µs"]
    text = FleetCheckDocument(verdict="fine", facts=found, findings=[]).as_text()
    document = json.loads(text)
    assert (document["kind"], len(document["facts"]["hosts"])) == ("fleet_check", 2)
