"""What bounds a cell: known by construction, inconclusive where a rival is not excluded."""

from itertools import chain

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from seatrial.trials.database.analysis.cells import database_cell
from seatrial.trials.database.analysis.model import BOUNDS

from .hand import (
    COMMIT,
    LOCK,
    PROCESSOR,
    READ,
    cell_of,
    record_of,
    sample_of,
    summary_of,
)


def verdict_of(*samples, cpus=2.0):
    return database_cell(summary_of(*samples), cpus).verdict


def bound_of(waits, columns=None, *, record=None, **rest):
    reported = record_of(waits=waits, **(record or {}))
    return verdict_of(sample_of(record=reported, columns=columns, **rest)).bound


BUSY = {
    "cpu_idle_share": 0.02,
    "cpu_iowait_share": 0.0,
    "cpu_user_share": 0.7,
    "cpu_system_share": 0.28,
    "server_cpu_cores": 1.4,
    "client_cpu_cores": 0.5,
    "device_busy_share": 0.02,
}


@pytest.mark.parametrize(
    ("waits", "columns", "bound"),
    [
        (COMMIT, {}, "commit"),
        ({"IO:WalSync": 90, "CPU": 10}, {}, "commit"),  # as version 17 spells it
        (READ, {}, "read"),
        (LOCK, {}, "lock"),
        ({"LWLock:LockManager": 70, "LWLock:BufferContent": 10, "CPU": 20}, {}, "lock"),
        (PROCESSOR, BUSY, "cpu"),
        ({"IO:WALSync": 40, "IO:DataFileRead": 38, "CPU": 22}, {}, "inconclusive"),
        ({"IO:BufFileWrite": 90, "CPU": 10}, {}, "inconclusive"),
    ],
    ids=str,
)
def test_what_the_clients_waited_for_decides(waits, columns, bound):
    assert bound_of(waits, columns) == bound


def test_a_sentence_has_its_figures():
    verdict = verdict_of(sample_of())
    assert verdict.sentence == (
        "Commit-bound: 85 % of the clients' time was spent waiting for WAL writes and syncs "
        "(WALSync, WALWrite); the server used 0.10 of 2 cores; the device was 97 % busy with "
        "5.0 reads, 110 flushes per second. Excluded: other waits (0 % of the clients' time), the "
        "CPU (10 % of the clients' time on a CPU or waiting for one), the client (5 % of the "
        "clients' time), other work on the machine (1 % of the CPU), the hypervisor (steal time) "
        "(0 % of the CPU), I/O of other processes (0 % of the disk's traffic at most), checkpoints "
        "(0 % of the time)."
    )
    assert verdict.evidence["wait_commit_share"] == pytest.approx(0.9 * 0.95)
    assert verdict.evidence["server_cpu_cores"] == 0.1


def test_who_holds_the_locks_is_reported():
    """On a slow disk clients queue for the row of one that waits to commit: both are said."""
    sentence = verdict_of(sample_of(record=record_of(waits=LOCK))).sentence
    assert sentence.startswith("Lock-bound: 76 % of the clients' time was spent waiting for locks")
    assert "(transactionid, tuple), and the lock holders mostly waited to commit" in sentence


@pytest.mark.parametrize(
    ("waits", "bound"),
    [
        ({"Lock:transactionid": 55, "IO:WALSync": 43, "CPU": 2}, "commit"),
        ({"LWLock:BufferMapping": 45, "IO:DataFileRead": 45, "CPU": 10}, "read"),
        ({"Lock:tuple": 45, "IO:WALSync": 31, "CPU": 24}, "inconclusive"),
        ({"Lock:tuple": 30, "IO:WALSync": 27, "CPU": 17, "Timeout:PgSleep": 26}, "inconclusive"),
    ],
    ids=str,
)
def test_a_queue_behind_what_its_holders_wait_for_is_theirs(waits, bound):
    assert bound_of(waits) == bound


def test_a_queue_is_reported_with_its_share():
    """Seen on a loop device of 300 requests a second: four clients at scale 2."""
    waits = {"Lock:transactionid": 55, "IO:WALSync": 43, "CPU": 2}
    sentence = verdict_of(sample_of(record=record_of(waits=waits))).sentence
    assert sentence.startswith("Commit-bound: 41 % of the clients' time was spent waiting for WAL")
    assert "(WALSync), and 52 % waiting for locks held meanwhile (transactionid)" in sentence


def test_of_the_article_processors_are_reported_in_cores():
    """160 % on the SSD were 1.6 cores."""
    busy = BUSY | {"server_cpu_cores": 1.6, "client_cpu_cores": 0.3}
    sentence = verdict_of(sample_of(record=record_of(waits=PROCESSOR), columns=busy)).sentence
    assert "CPU-bound: the processors were 98 % busy; the server used 1.6 of 2 cores" in (sentence)


def test_processors_that_others_keep_busy_are_not_the_databases_bound():
    others = BUSY | {
        "server_cpu_cores": 0.4,
        "server_delay_cores": 5.0,
        "client_cpu_cores": 0.1,
        "others_cpu_cores": 1.4,
    }
    verdict = verdict_of(sample_of(record=record_of(waits=PROCESSOR), columns=others))
    assert (verdict.bound, verdict.likely) == ("inconclusive", "cpu")
    assert "Not excluded: other work on the machine (69 % of the CPU, 10 % allowed)" in (
        verdict.sentence
    )
    assert verdict.next == "Stop the other work on the machine and repeat"


def test_a_server_that_waits_for_wal_while_others_work_is_not_cpu_bound():
    """Was "CPU-bound ... The storage keeps up", while others used half of the processors."""
    columns = BUSY | {"server_cpu_cores": 0.7, "client_cpu_cores": 0.4, "others_cpu_cores": 1.0}
    waits = {"LWLock:WALWrite": 320, "IO:WALSync": 150, "CPU": 530}
    verdict = verdict_of(sample_of(record=record_of(waits=waits), columns=columns))
    assert verdict.bound == "inconclusive"
    assert "other work" in verdict.sentence


COMPUTING = BUSY | {
    "server_cpu_cores": 0.22,
    "client_cpu_cores": 1.6,
    "backends_active": 1.5,
    "backends_idle": 8.5,
    "backends_idle_in_transaction": 0.0,
}


def test_a_client_that_computes_is_the_bound_and_not_the_servers_processors():
    """Reported as "CPU-bound", while the server used 0.22 of 2 processors."""
    record = record_of(waits=PROCESSOR, client_cpu_share=0.6)
    verdict = verdict_of(sample_of(record=record, columns=COMPUTING))
    assert verdict.bound == "client"
    assert "the driver used 1.6 cores and the server 0.22" in verdict.sentence


def test_a_server_that_was_never_seen_at_work_waits_for_its_client():
    """Planted: a script that computes, and no look that found a statement under way."""
    columns = COMPUTING | {"backends_active": 0.0, "backends_idle": 6.0}
    record = record_of(waits={}, client_cpu_share=0.98)
    verdict = verdict_of(sample_of(record=record, columns=columns))
    assert verdict.bound == "client"
    assert verdict.evidence["wait_client_share"] == 1.0


def test_a_client_that_others_kept_from_the_processors_is_not_said_to_be_the_bound():
    record = record_of(waits=PROCESSOR, client_cpu_share=0.5)
    columns = COMPUTING | {
        "client_cpu_cores": 0.8,
        "client_delay_cores": 0.9,
        "others_cpu_cores": 0.9,
    }
    verdict = verdict_of(sample_of(record=record, columns=columns))
    assert (verdict.bound, verdict.likely) == ("inconclusive", "client")
    assert [rival.name for rival in verdict.rivals if not rival.is_excluded] == ["others_cpu"]


PLANTED = {
    "commit": (COMMIT, {}, {}),
    "read": (READ, {}, {}),
    "lock": (LOCK, {}, {}),
    "cpu": (PROCESSOR, BUSY, {}),
    "client": (PROCESSOR, COMPUTING, {"client_cpu_share": 0.98}),
    "checkpoint": (
        {"IO:DataFileFlush": 60, "IO:DataFileSync": 20, "CPU": 20},
        {"checkpoint_running_share": 0.9},
        {},
    ),
}
GUILTY = {
    "others_cpu": {"others_cpu_cores": 0.6, "cpu_idle_share": 0.05, "cpu_iowait_share": 0.0},
    "steal": {"cpu_steal_share": 0.3},
    "seatrial": {"seatrial_cpu_cores": 0.4},
    "processors": {"server_delay_cores": 5.0},
    "checkpoint": {"checkpoint_running_share": 0.4},
}
"""What makes a figure of a rival too large, by its name."""
GUILTY_COUNTERS = {
    "others_io": {"disk_write_bytes": 9e9, "others_write_bytes": 9e9},
    "checkpoint": {"checkpoint_buffers": 1000.0 * 20, "checkpoints_requested": 3.0},
}


def planted(bound, columns=None, counters=None):
    waits, usual, record = PLANTED[bound]
    reported = record_of(waits=waits, **record)
    return verdict_of(
        sample_of(record=reported, columns=usual | (columns or {}), counters=counters)
    )


@pytest.mark.parametrize("bound", PLANTED)
def test_a_bound_is_said_where_each_rival_is_excluded_by_a_figure(bound):
    verdict = planted(bound)
    assert verdict.bound == bound
    assert verdict.rivals
    assert all(rival.is_excluded for rival in verdict.rivals)
    assert all(rival.value <= rival.allowed_max for rival in verdict.rivals)
    assert all(verdict.evidence[rival.figure] == rival.value for rival in verdict.rivals)
    assert {"others_cpu", "steal"} <= {rival.name for rival in verdict.rivals}
    assert "Excluded: " in verdict.sentence
    assert verdict.next == ""


PAIRS = [
    (bound, rival)
    for bound in PLANTED
    for rival in dict.fromkeys((*GUILTY, *GUILTY_COUNTERS))
    if rival in {each.name for each in planted(bound).rivals}
]


@pytest.mark.parametrize(("bound", "rival"), PAIRS)
def test_one_rival_that_is_not_excluded_makes_it_inconclusive(bound, rival):
    verdict = planted(bound, GUILTY.get(rival), GUILTY_COUNTERS.get(rival))
    assert verdict.bound == "inconclusive"
    left = [each for each in verdict.rivals if not each.is_excluded]
    if verdict.likely:  # else nothing leads any more, which says as much
        assert rival in {each.name for each in left}
        assert "Not excluded: " in verdict.sentence
    assert verdict.next
    assert left == [] or left[0].next in verdict.next


UNMEASURED = {
    "others_cpu": (["others_cpu_cores", "cpu_idle_share", "cpu_iowait_share"], []),
    "steal": (["cpu_steal_share"], []),
    "others_io": ([], ["disk_read_bytes", "disk_write_bytes"]),
    "seatrial": (["seatrial_cpu_cores"], []),
}


@pytest.mark.parametrize("rival", UNMEASURED)
@pytest.mark.parametrize("bound", PLANTED)
def test_what_was_not_measured_excludes_nothing(bound, rival):
    if (bound, rival) not in {(b, r) for b, r in PAIRS}:
        pytest.skip("no rival of this bound")
    columns, counters = UNMEASURED[rival]
    verdict = planted(bound, dict.fromkeys(columns), dict.fromkeys(counters))
    assert verdict.bound == "inconclusive"
    assert "(not measured)" in verdict.sentence or not verdict.likely


def test_others_that_leave_the_server_its_processors_are_excluded_by_what_it_lacked():
    """Half of a large machine is busy with other work, and the server hardly queues."""
    columns = {"others_cpu_cores": 0.8, "cpu_idle_share": 0.5, "cpu_iowait_share": 0.0}
    verdict = planted("commit", columns)
    assert verdict.bound == "commit"
    (rival,) = [each for each in verdict.rivals if each.name == "others_cpu"]
    assert rival.figure == "server_delay_share"


def test_a_wait_that_may_be_a_queue_for_processors_is_not_reported_as_a_wait():
    """A process that was woken shows the wait that it has left until it runs."""
    busy = {"cpu_idle_share": 0.0, "cpu_iowait_share": 0.0, "server_delay_cores": 4.0}
    assert planted("commit", busy).bound == "inconclusive"


def test_disks_that_do_what_others_ask_for_are_theirs_by_the_lower_of_two_bounds():
    """Others use another disk, or nobody does and the file system writes its journal."""
    elsewhere = {"others_write_bytes": 9e9}
    assert planted("commit", counters=elsewhere).bound == "commit"
    journal = {"disk_write_bytes": 9e9}
    assert planted("commit", counters=journal).bound == "commit"
    assert planted("commit", counters=elsewhere | journal).bound == "inconclusive"


def test_busy_processors_are_not_blamed_for_what_clients_wait_for():
    """Seen on this project's own machine: a throttled disk, while others compiled."""
    mixed = {"IO:DataFileRead": 30, "LWLock:WALWrite": 32, "IO:WALSync": 5, "CPU": 33}
    assert bound_of(mixed, BUSY) == "inconclusive"


def test_one_client_is_bound_by_its_one_processor_on_an_idle_machine():
    columns = {
        "backends_active": 0.8,
        "backends_idle": 0.2,
        "backends_idle_in_transaction": 0.0,
        "server_cpu_cores": 0.75,
        "client_cpu_cores": 0.2,
        "cpu_idle_share": 0.75,
        "cpu_iowait_share": 0.0,
        "device_busy_share": 0.0,
    }
    reported = record_of(waits={"CPU": 100}, client_cpu_share=0.2)
    verdict = verdict_of(sample_of(cell_of(clients=1), record=reported, columns=columns), cpus=8.0)
    assert verdict.bound == "cpu"
    assert "each connection can use one CPU at a time" in verdict.sentence


def test_a_kernel_that_keeps_the_server_is_no_busy_processor():
    """No wait has a name, and the processors idle: throttled writes look so."""
    columns = {"server_cpu_cores": 0.1, "cpu_idle_share": 0.4, "cpu_iowait_share": 0.5}
    verdict = verdict_of(sample_of(record=record_of(waits={"CPU": 900}), columns=columns))
    assert (verdict.bound, verdict.likely) == ("inconclusive", "cpu")
    assert "Not excluded: the kernel (" in verdict.sentence


def test_a_driver_near_its_limit_with_busy_processors_leaves_both():
    record = record_of(waits=PROCESSOR, client_cpu_share=0.71)
    verdict = verdict_of(sample_of(record=record, columns=BUSY))
    assert (verdict.bound, verdict.likely) == ("inconclusive", "cpu")
    assert [rival.name for rival in verdict.rivals if not rival.is_excluded] == ["client"]
    assert "separate machine" in verdict.next


def test_a_driver_that_takes_as_much_of_the_processors_as_the_server_leaves_both():
    columns = BUSY | {"server_cpu_cores": 1.0, "client_cpu_cores": 0.9}
    verdict = verdict_of(sample_of(record=record_of(waits=PROCESSOR), columns=columns))
    assert (verdict.bound, verdict.likely) == ("inconclusive", "cpu")
    assert "the client (90 % of the server's CPU time," in verdict.sentence


def test_commits_behind_the_writes_of_checkpoints_are_the_checkpoints():
    """Planted on a disk of 400 requests a second: nothing dominated, 90 % of the bytes theirs."""
    waits = {"IPC:CheckpointDone": 530, "IO:WALSync": 370, "CPU": 100}
    columns = {"checkpoint_running_share": 0.95, "device_busy_share": 0.06}
    written = {"checkpoint_buffers": 100.0 * 20, "checkpoints_requested": 9.0}
    reported = record_of(waits=waits)
    found = verdict_of(sample_of(record=reported, columns=columns, counters=written))
    assert found.bound == "checkpoint"
    few = written | {"checkpoint_buffers": 5.0 * 20}
    assert (
        verdict_of(sample_of(record=reported, columns=columns, counters=few)).bound
        == "inconclusive"
    )


def test_a_driver_that_passed_its_ceiling_is_not_at_it():
    assert bound_of(PROCESSOR, BUSY, record={"ceiling_per_s": 60.0}) == "cpu"


def test_a_driver_is_not_blamed_for_waits_of_the_server():
    assert bound_of(COMMIT, {}, record={"client_cpu_share": 0.9}) == "commit"


def test_connections_that_wait_for_their_clients_are_the_clients_fault():
    columns = {
        "backends_active": 2.0,
        "backends_idle": 5.0,
        "backends_idle_in_transaction": 3.0,
        "cpu_idle_share": 0.7,
        "cpu_iowait_share": 0.0,
    }
    verdict = verdict_of(sample_of(record=record_of(waits=PROCESSOR), columns=columns))
    assert verdict.bound == "client"
    assert "the server waited for the next statement 80 % of the clients' time" in (
        verdict.sentence
    )


def test_a_schedule_that_is_kept_is_the_bound_and_one_that_is_not_kept_is_none():
    cell = cell_of(rate_per_s=100.0)
    kept = verdict_of(sample_of(cell, per_s=98.0))
    assert kept.bound == "inconclusive"
    assert kept.sentence.startswith("The schedule sets the rate: 100 transactions/s were")
    assert verdict_of(sample_of(cell, per_s=80.0)).bound == "commit"


def test_the_schedule_of_several_processes_is_their_sum():
    cell = cell_of(rate_per_s=100.0, processes=2)
    assert verdict_of(sample_of(cell, per_s=198.0)).evidence["requested_per_s"] == 200.0


def test_each_host_has_the_whole_schedule():
    def sentence(**factors):
        cell = cell_of(rate_per_s=500.0, **factors)
        return verdict_of(sample_of(cell, per_s=600.0)).sentence

    assert "2,000 transactions/s were requested" not in sentence(hosts=4)
    assert sentence(hosts=4).startswith("Commit-bound")
    assert sentence(hosts=4, lost_hosts=3).startswith("The schedule sets the rate: 500 ")
    assert sentence().startswith("The schedule sets the rate: 500 ")


def test_nothing_seen_is_inconclusive():
    bare = sample_of(record=record_of(waits={}), has_series=False)
    assert verdict_of(bare).sentence == "Inconclusive: no wait events were sampled."
    few = sample_of(seconds=1)
    assert verdict_of(few).bound == "inconclusive"
    assert "wait events were sampled only 10 times" in verdict_of(few).sentence


def test_a_server_elsewhere_reports_nothing_of_this_machine():
    of_machine = (
        *("cpu_user_share", "cpu_system_share", "cpu_iowait_share", "cpu_steal_share"),
        *("cpu_idle_share", "server_cpu_cores", "device_busy_share", "device_read_per_s"),
        "device_flush_per_s",
    )
    columns = dict.fromkeys(of_machine)
    verdict = verdict_of(sample_of(record=record_of(waits=PROCESSOR), columns=columns))
    assert (verdict.bound, verdict.likely) == ("inconclusive", "cpu")
    assert verdict.sentence.startswith("Inconclusive, probably CPU-bound: 86 %")
    assert "other work on the machine (not measured)" in verdict.sentence


CHECKPOINT = ([0.0] * 3 + [1.0] * 3) * 3
DIPPING = ([100.0] * 3 + [30.0] * 3) * 3


def test_checkpoints_that_take_the_rate_are_the_bound():
    samples = [
        sample_of(rates=DIPPING, round=number, columns={"checkpoint_running_share": CHECKPOINT})
        for number in range(3)
    ]
    verdict = verdict_of(*samples)
    assert verdict.bound == "checkpoint"
    assert verdict.sentence.startswith("Checkpoint-bound: checkpoints reduced the rate by 35 %")


def test_what_was_seen_in_one_round_is_no_proof_of_checkpoints():
    one = sample_of(rates=DIPPING, columns={"checkpoint_running_share": CHECKPOINT})
    assert verdict_of(one).bound == "commit"


def test_writes_of_data_files_under_a_checkpoint_are_its_own():
    waits = {"IO:DataFileFlush": 60, "IO:DataFileSync": 20, "CPU": 20}
    assert bound_of(waits, {"checkpoint_running_share": 0.9}) == "checkpoint"
    assert bound_of(waits, {"checkpoint_running_share": 0.0}) == "inconclusive"


def test_a_start_that_the_rate_leaves_out_is_said():
    rates = [400.0] * 6 + [100.0] * 24
    verdict = verdict_of(sample_of(rates=rates))
    assert "cover whole samples, including up to 6.0 s of start-up phase" in verdict.sentence


EVENTS = {
    "commit": ["IO:WALSync", "IO:WALWrite", "LWLock:WALWrite"],
    "read": ["IO:DataFileRead", "IO:DataFilePrefetch", "IPC:BufferIO"],
    "lock": ["Lock:transactionid", "Lock:tuple", "LWLock:BufferMapping", "BufferPin:BufferPin"],
}


@st.composite
def dominated(draw):
    """Sightings of which one group has at least 65 %, and no other half as much."""
    group = draw(st.sampled_from(sorted(EVENTS)))
    own = draw(st.floats(0.65, 1.0))
    others = [each for name, events in EVENTS.items() if name != group for each in events]
    weights = {event: draw(st.floats(0.01, 1.0)) for event in EVENTS[group]}
    rest = {event: draw(st.floats(0.0, 1.0)) for event in [*others, "CPU"]}
    total = draw(st.integers(2_000, 50_000))
    shares = {e: own * w / sum(weights.values()) for e, w in weights.items()}
    whole = sum(rest.values()) or 1.0
    shares |= {e: (1 - own) * w / whole for e, w in rest.items()}
    return group, {event: round(share * total) for event, share in shares.items()}


@settings(deadline=None, max_examples=60)
@given(dominated())
def test_where_a_group_significantly_dominates_it_is_named(case):
    group, waits = case
    assert bound_of(waits) == group


STANDBY = {"IPC:SyncRep": 850, "IO:WALSync": 100, "CPU": 50}


def test_commits_that_wait_for_a_standby_are_not_blamed_on_this_storage():
    verdict = verdict_of(sample_of(record=record_of(waits=STANDBY)))
    assert verdict.bound == "standby"
    assert verdict.sentence.startswith("Standby-bound: 81 % of the clients' time")
    assert "others_io" not in [rival.name for rival in verdict.rivals]


def test_a_standby_that_may_be_a_busy_machine_is_settled_with_local_commits():
    columns = {"others_cpu_cores": 1.5, "cpu_idle_share": 0.0, "cpu_iowait_share": 0.0}
    verdict = verdict_of(sample_of(record=record_of(waits=STANDBY), columns=columns))
    assert (verdict.bound, verdict.likely) == ("inconclusive", "standby")
    assert verdict.next.startswith("Repeat with synchronous_commit = local")


def test_a_queue_behind_a_standby_is_the_standbys():
    waits = {"Lock:transactionid": 500, "IPC:SyncRep": 400, "IO:WALSync": 50, "CPU": 50}
    assert bound_of(waits) == "standby"


def test_waits_without_a_group_are_not_excluded_on_full_processors():
    columns = BUSY | {"server_cpu_cores": 1.5, "others_cpu_cores": 0.02}
    sample = sample_of(
        record=record_of(waits={"IO:BufFileWrite": 800, "CPU": 200}), columns=columns
    )
    verdict = verdict_of(sample)
    assert (verdict.bound, verdict.likely) == ("inconclusive", "")
    assert "BufFileWrite" in verdict.sentence
    assert "nothing dominates" not in verdict.sentence


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from([*chain(*EVENTS.values()), "CPU", "Timeout:PgSleep", "Extension:Own"]),
        st.integers(0, 1000),
    ),
    st.floats(0.0, 1.0),
    st.floats(0.0, 2.0),
)
def test_whatever_is_seen_a_verdict_is_given_and_shares_sum_up_to_1(waits, idle, cores):
    columns = {"cpu_idle_share": idle, "cpu_iowait_share": 0.0, "server_cpu_cores": cores}
    part = database_cell(summary_of(sample_of(record=record_of(waits=waits), columns=columns)), 2.0)
    assert part.verdict.bound in BOUNDS
    assert part.verdict.sentence.endswith(".")
    if sum(waits.values()):
        assert sum(part.waits.values()) == pytest.approx(1.0)
        groups = [v for name, v in part.verdict.evidence.items() if name.startswith("wait_")]
        assert sum(groups) == pytest.approx(1.0)
