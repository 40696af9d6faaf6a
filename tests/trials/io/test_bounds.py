"""What the path carries: links, buses, memory; and who answered what it cannot carry."""

import csv
from pathlib import Path

import msgspec
import pytest

from seatrial.cli.import_command import parse_bus, parse_link
from seatrial.cli.sources import load_source
from seatrial.findings.context import Context
from seatrial.findings.registry import (
    find,
)
from seatrial.fingerprint import Fingerprint, Target
from seatrial.trials.io.bounds import (
    Declared,
    bounds_of,
    controller_cache,
    drive_links,
    path_bounds,
    with_declared,
)
from seatrial.trials.io.findings.bound_broken import bound_broken
from seatrial.trials.io.findings.device_cache_served import device_cache_served
from seatrial.trials.io.findings.page_cache_served import page_cache_served
from seatrial.units import GIB, MIB
from stats.builders import cell_of, rounds_of, run_of, sample_of, summary_of

ROOT = Path(__file__).parents[3]
SATA2 = parse_link("sata2")


def drive(name="sda", **facts):
    return {"name": name, **facts}


def bus(address, bytes_per_s, *, speed=2.5, width=8):
    narrowest = {
        "address": address,
        "bandwidth_now_bytes_per_s": bytes_per_s,
        "speed_now_gt_s": speed,
        "width_now": width,
    }
    return {"pcie": {"narrowest": narrowest}}


def fingerprint_of(*stack, **machine):
    facts = {"machine": machine, "target": {"stack": list(stack)}}
    return msgspec.convert(facts, Fingerprint)


def rate_of(mb_per_s, *, rounds=1, **cell):
    return rounds_of(cell_of(**cell), [1000] * rounds, transferred_bytes=int(mb_per_s * 10**6))


def context_of(*summaries, before):
    return Context(run_on(before), summaries)


def run_on(before):
    return msgspec.structs.replace(run_of(), fingerprint_before=before)


def reported(before):
    return {bound.name: round(bound.bytes_per_s / 1e6) for bound in path_bounds(before)}


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        ([drive(sata_link_gb_s=3.0)], {"drive_links": 300}),
        ([drive(sas_link_gb_s=12.0)], {"drive_links": 1200}),
        ([drive(sas_link_gb_s=12.0, sas_lanes=2)], {"drive_links": 2400}),
        ([drive(sas_link_gb_s=22.5, sas_lanes=1)], {"drive_links": 2400}),
        ([drive(link_bytes_per_s=4e8)], {"drive_links": 400}),
        ([drive(**bus("a", 2e9))], {"drive_links": 2000}),  # an NVMe drive: the bus is its link
        (
            [drive("a", sata_link_gb_s=6.0), drive("b", sata_link_gb_s=6.0)],
            {"drive_links": 1200},
        ),
        (  # two drives, one controller
            [drive(n, sata_link_gb_s=6.0, **bus("c", 1e9)) for n in "ab"],
            {"drive_links": 1200, "host_bus": 1000},
        ),
        (  # two controllers
            [drive(n, sata_link_gb_s=6.0, **bus(n, 1e9)) for n in "ab"],
            {"drive_links": 1200, "host_bus": 2000},
        ),
        (  # the way to one of the two is not known
            [drive("a", sata_link_gb_s=6.0, **bus("a", 1e9)), drive("b", sata_link_gb_s=6.0)],
            {"drive_links": 1200},
        ),
        ([drive()], {}),
        ([], {}),
        ([drive("md0", children=["sda"]), drive(sata_link_gb_s=3.0)], {"drive_links": 300}),
    ],
)
def test_what_the_path_carries(stack, expected):
    assert reported(fingerprint_of(*stack)) == expected


def test_bounds_come_from_the_medium_outwards_and_say_what_they_are():
    before = fingerprint_of(
        *(drive(name, sata_link_gb_s=3.0, **bus("c", 2e9)) for name in "abcd"),
        memory_copy_bytes_per_s=1e10,
        cpus_online=2,
    )
    links, slot = bounds_of(before, rate_of(1))
    assert (links.words, links.detail) == ("the drives' links saturate", "4 links, SATA 3 Gb/s")
    assert (slot.words, slot.detail) == ("the host bus saturates", "PCIe 2.5 GT/s x8")
    assert (links.source, slot.source) == ("fingerprint", "fingerprint")


def test_the_page_cache_is_bounded_by_memory_alone_and_direct_io_not_by_memory():
    before = fingerprint_of(drive(sata_link_gb_s=3.0), memory_copy_bytes_per_s=1e10, cpus_online=2)
    (memory,) = bounds_of(before, rate_of(1, direct=False))
    assert (memory.name, memory.source) == ("memory_copy", "measured")
    assert memory.bytes_per_s == 1.5 * 2 * 1e10
    without_path = fingerprint_of(memory_copy_bytes_per_s=1e10, cpus_online=2)
    assert bounds_of(without_path, rate_of(1)) == []


def test_what_fits_a_processors_cache_is_not_bounded_by_memory():
    before = fingerprint_of(memory_copy_bytes_per_s=1e10)
    assert bounds_of(before, rate_of(1, size_bytes=32 * MIB, direct=False)) == []


CONTROLLER = [drive(name, sata_link_gb_s=3.0, **bus("0000:05:00.0", 2e9)) for name in "abcdefgh"]


@pytest.mark.parametrize(
    ("mb_per_s", "kind"),
    [(1900, None), (2100, "bound_broken"), (2500, "bound_broken")],
)
def test_a_bus_narrower_than_the_links_decides(mb_per_s, kind):
    context = context_of(rate_of(mb_per_s), before=fingerprint_of(*CONTROLLER))
    kinds = [f.kind for f in (*bound_broken(context), *device_cache_served(context))]
    assert kinds == ([kind] if kind else [])


@pytest.mark.parametrize(
    ("mb_per_s", "kind"),
    [(1100, None), (1300, "device_cache_served"), (2100, "bound_broken")],
)
def test_one_finding_a_cell_the_outermost_bound_wins(mb_per_s, kind):
    context = context_of(rate_of(mb_per_s), before=fingerprint_of(*CONTROLLER[:4]))
    kinds = [f.kind for f in (*bound_broken(context), *device_cache_served(context))]
    assert kinds == ([kind] if kind else [])


def test_a_broken_bus_says_by_how_much():
    before = fingerprint_of(*CONTROLLER)
    (finding,) = bound_broken(context_of(rate_of(2500), before=before))
    assert finding.severity == "critical"
    assert "the host bus saturates at 2,000 MB/s (PCIe 2.5 GT/s x8)" in finding.sentence
    assert "by 25 %" in finding.sentence
    assert finding.evidence["excess_share"] == pytest.approx(0.25)


def test_a_bound_is_broken_significantly_or_not_at_all():
    def cell(rates):
        return summary_of(
            *(
                sample_of(transferred_bytes=rate * 10**6, round=number)
                for number, rate in enumerate(rates)
            )
        )

    before = fingerprint_of(*CONTROLLER)
    assert bound_broken(context_of(cell([1600, 2300, 3000]), before=before)) == []
    (finding,) = bound_broken(context_of(cell([2280, 2300, 2320]), before=before))
    assert "by at least 13 %" in finding.sentence


@pytest.mark.parametrize(("gb_per_s", "is_broken"), [(29, False), (31, True)])
def test_faster_than_memory_is_copied(gb_per_s, is_broken):
    before = fingerprint_of(memory_copy_bytes_per_s=1e10, cpus_online=2)
    found = bound_broken(context_of(rate_of(gb_per_s * 1000, direct=False), before=before))
    assert bool(found) is is_broken
    if found:
        assert "memory copy saturates at 30,000 MB/s" in found[0].sentence


def test_a_simulated_device_has_no_path():
    summary = rounds_of(cell_of(), [1000], transferred_bytes=10**13, engine="simulated")
    assert bound_broken(context_of(summary, before=fingerprint_of(*CONTROLLER))) == []


@pytest.mark.parametrize("operation", ["read", "write"])
@pytest.mark.parametrize(("mb_per_s", "is_cached"), [(290, False), (310, True)])
def test_buffered_cells_above_the_links_are_the_page_caches(operation, mb_per_s, is_cached):
    cell = rate_of(mb_per_s, operation=operation, direct=False, size_bytes=64 * GIB)
    before = fingerprint_of(drive(sata_link_gb_s=3.0), memory_bytes=GIB)
    found = page_cache_served(context_of(cell, before=before))
    assert bool(found) is is_cached
    if found:
        assert "but the drive's link saturates at 300 MB/s" in found[0].sentence


def test_what_the_device_counted_decides_before_the_links():
    cell = summary_of(
        sample_of(
            cell_of(direct=False),
            transferred_bytes=400 * 10**6,
            counters={"device_read_bytes": 390e6},
        )
    )
    before = fingerprint_of(drive(sata_link_gb_s=3.0))
    assert page_cache_served(context_of(cell, before=before)) == []


@pytest.mark.parametrize(
    ("file_gib", "is_doubted", "reported_share"),
    [(2, True, "100 %"), (7, True, "57 %"), (8, False, "")],
)
def test_a_file_that_the_controller_may_hold(file_gib, is_doubted, reported_share):
    cell = rate_of(100, size_bytes=file_gib * GIB)
    before = fingerprint_of(drive(controller={"name": "host0", "cache_bytes": 4 * GIB}))
    found = device_cache_served(context_of(cell, before=before))
    assert bool(found) is is_doubted
    if found:
        assert found[0].severity == "warning"
        assert "may be served by a cache" in found[0].sentence
        assert reported_share in found[0].sentence


def test_disks_of_one_controller_share_its_cache():
    one = {"name": "host0", "cache_bytes": GIB}
    other = {"name": "host1", "cache_bytes": GIB}
    stack = [drive("a", controller=one), drive("b", controller=one), drive("c", controller=other)]
    cache = controller_cache(fingerprint_of(*stack))
    assert cache is not None
    assert (cache.size_bytes, cache.words) == (2 * GIB, "the controllers' caches")
    assert controller_cache(fingerprint_of(drive(controller={"name": "host0"}))) is None


# Declared hardware


def article_context(source, declared):
    imported = load_source(source, ROOT / "no-results.seatrial")
    run, samples = with_declared(imported.run, imported.samples, declared)
    return Context(run, [summary_of(sample) for sample in samples])


RAID0 = str(ROOT / "reference" / "bm-flash-2009.csv") + ":raid0-12ssd-1controller"
RAID5 = str(ROOT / "reference" / "bm-flash-2009.csv") + ":raid5-4ssd-1controller"
RAID5_PRINTED = str(ROOT / "tests" / "report" / "bm-flash-2009-raid5.txt")
FOUR_DRIVES = Declared(drives=4, link=SATA2)


@pytest.mark.parametrize(("source", "fills"), [(RAID5, 0), (RAID5_PRINTED, 1)])
def test_the_articles_raid5_reads_are_served_by_a_cache(source, fills):
    context = article_context(source, FOUR_DRIVES)
    (finding,) = [f for f in find(context) if f.kind in ("device_cache_served", "bound_broken")]
    assert finding.severity == "critical"
    assert "but the drives' links saturate at 1,200 MB/s" in finding.sentence
    # 436 requests of 4 MiB a second: 1,744 MiB/s.
    assert finding.evidence["bandwidth_bytes_per_s"] == pytest.approx(1829e6, rel=1e-3)
    assert finding.evidence["link_source"] == "declared"
    above = [s for s in context.samples if s.transferred_bytes_per_s > 1200e6]
    assert len(finding.cells) == len(above) == 21 + fills


def test_without_a_declaration_nothing_is_said_of_an_imported_table():
    context = article_context(RAID5, Declared())
    assert bound_broken(context) == device_cache_served(context) == []


def test_the_other_cells_may_be_the_caches_too_when_it_holds_the_file():
    declared = Declared(drives=4, link=SATA2, controller_cache_bytes=4 * GIB, file_bytes=4 * GIB)
    context = article_context(RAID5, declared)
    critical, warning = device_cache_served(context)
    assert (critical.severity, warning.severity) == ("critical", "warning")
    assert len(critical.cells) + len(warning.cells) == len(context.cells)
    assert "can hold 100 % of the file (4 GiB)" in warning.sentence


def test_twelve_drives_in_a_slot_of_eight_lanes_carry_what_was_printed():
    declared = Declared(drives=12, link=SATA2, buses=[parse_bus("pcie1x8")])
    context = article_context(RAID0, declared)
    assert reported(context.before) == {"drive_links": 3600, "host_bus": 2000}
    assert bound_broken(context) == []
    assert device_cache_served(context) == []


def facts(quantity):
    with (ROOT / "reference" / "facts.csv").open(encoding="utf-8") as file:
        return [float(row["value"]) for row in csv.DictReader(file) if row["quantity"] == quantity]


def test_eight_drives_do_not_carry_the_articles_maximum():
    (gigabytes_per_s,) = facts("random read bandwidth maximum")
    slots = [parse_bus("pcie1x8")] * 2
    sample = sample_of(transferred_bytes=int(gigabytes_per_s * 1e9))
    declared = Declared(drives=8, link=SATA2, buses=slots)
    run, samples = with_declared(run_of(), [sample], declared)
    context = Context(run, [summary_of(*samples)])
    assert reported(context.before) == {"drive_links": 2400, "host_bus": 4000}
    (finding,) = device_cache_served(context)
    assert "the drives' links saturate at 2,400 MB/s (8 links, SATA 3 Gb/s)" in finding.sentence


def test_four_drives_do_not_carry_the_articles_fill():
    (megabytes_per_s,) = facts("fill rate")
    cell = cell_of(workload="fill", operation="write", block_size_bytes=MIB)
    sample = sample_of(cell, transferred_bytes=int(megabytes_per_s * MIB))
    run, samples = with_declared(run_of(), [sample], FOUR_DRIVES)
    (finding,) = device_cache_served(Context(run, [summary_of(*samples)]))
    assert finding.severity == "critical"
    assert finding.cells[0]["workload"] == "fill"


def test_declared_drives_lie_below_the_disk_that_hides_them():
    volume = drive("sda", children=[], **bus("0000:05:00.0", 1e9))
    run, _ = with_declared(run_on(fingerprint_of(volume)), [], FOUR_DRIVES)
    assert reported(run.fingerprint_before) == {"drive_links": 1200, "host_bus": 1000}
    top, *drives = run.fingerprint_before.stack
    assert top.children == [each.name for each in drives]
    assert all(each.declared is True for each in drives)


def test_buses_of_two_arrays_above_the_same_declared_drives_add_up():
    volumes = [drive(name, **bus(name, 1e9)) for name in ("sda", "sdb")]
    run, _ = with_declared(run_on(fingerprint_of(*volumes)), [], FOUR_DRIVES)
    assert reported(run.fingerprint_before)["host_bus"] == 2000


def test_declared_memory_and_file_size_are_used_where_nothing_is_known():
    sample = sample_of(cell_of(direct=False, size_bytes=None))
    declared = Declared(memory_bytes=8 * GIB, file_bytes=4 * GIB)
    run, samples = with_declared(run_of(), [sample], declared)
    (finding,) = page_cache_served(Context(run, [summary_of(*samples)]))
    assert "file size 4 GiB, memory 8 GiB" in finding.sentence


def test_a_file_size_that_the_result_reports_stays():
    sample = sample_of(cell_of(size_bytes=GIB))
    _, samples = with_declared(run_of(), [sample], Declared(file_bytes=4 * GIB))
    assert samples[0] == sample


def test_nothing_declared_changes_nothing():
    run, sample = run_on(fingerprint_of(*CONTROLLER)), sample_of()
    assert with_declared(run, [sample], Declared()) == (run, [sample])


@pytest.mark.parametrize(
    ("written", "megabytes_per_s"),
    [
        ("sata1", 150),
        ("SATA2", 300),
        ("3Gb/s", 300),
        ("6 Gb/s", 600),
        ("sas-12", 1200),
        ("sas-24", 2400),
        ("pcie3x4", 3938),
        ("PCIe 4 x4", 7877),
        ("400MB/s", 400),
        ("1.2 GB/s", 1200),
    ],
)
def test_links_as_they_are_written(written, megabytes_per_s):
    link = parse_link(written)
    assert link is not None
    assert reported(Fingerprint(target=Target(stack=[link]))) == {"drive_links": megabytes_per_s}


@pytest.mark.parametrize(
    "written", ["", "sata4", "sas", "4Gb/s", "pcie7x4", "pcie3x0", "pcie3x33", "0MB/s", "fast"]
)
def test_what_is_no_link_is_refused(written):
    assert parse_link(written) is None


@pytest.mark.parametrize(
    ("lanes", "slot_gt_s", "mb_per_s", "words"),
    [
        (4, 16.0, 7880, "PCIe 16 GT/s x4"),
        (2, 16.0, 3940, "PCIe 16 GT/s x2"),
        (4, 8.0, 3940, "PCIe 8 GT/s x4"),
    ],
)
def test_an_idle_link_counts_with_its_highest_speed_and_its_present_width(
    lanes, slot_gt_s, mb_per_s, words
):
    def end(address, max_gt_s):
        most = 7.88e9 * max_gt_s / 16
        facts = {"address": address, "speed_now_gt_s": 2.5, "bandwidth_now_bytes_per_s": 1e9}
        facts |= {"speed_max_gt_s": max_gt_s, "bandwidth_max_bytes_per_s": most}
        return facts | {"width_now": lanes, "width_max": 4}

    own = end("01", 16.0)
    pcie = own | {"chain": [end("00", slot_gt_s)], "narrowest": own}
    (link,) = drive_links(fingerprint_of(drive("nvme0n1", kind="disk", pcie=pcie)))
    assert (round(link.bytes_per_s / 1e6), link.words) == (mb_per_s, words)


@pytest.mark.parametrize("spec", [{"direct": True}, {"direct": False}])
def test_the_rate_of_hosts_is_not_bounded_by_the_drive_of_this_machine(spec):
    before = fingerprint_of(drive(sata_link_gb_s=6.0), memory_copy_bytes_per_s=1e8)
    factors = {"hosts": 4}
    of_hosts = rate_of(1680, size_bytes=GIB, factors=factors, **spec)
    assert bounds_of(before, of_hosts) == []
    context = context_of(of_hosts, before=before)
    assert page_cache_served(context) == device_cache_served(context) == []
