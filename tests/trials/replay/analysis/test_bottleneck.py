"""Who was the bottleneck of a replay: each answer from what shows it, and silence without it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from seatrial.findings.summary import summarise
from seatrial.trials.database.analysis.model import BOUNDS, database_of
from seatrial.trials.replay.analysis.bottleneck import (
    WHO,
    client_cores,
    client_shares,
    order_share,
    sessions_mean,
)
from seatrial.trials.replay.analysis.model import WHO as ANSWERS
from seatrial.trials.replay.analysis.model import replays_of
from stats.builders import run_of
from trials.database.analysis.hand import COMMIT, LOCK, MACHINE, PROCESSOR, READ

from .hand import Play, adds_up, changed, rounds_of, sample_of

IDLE = {"cpu_idle_share": 0.9, "cpu_iowait_share": 0.0, "device_busy_share": 0.01}
BUSY = {
    "cpu_user_share": 0.7,
    "cpu_system_share": 0.25,
    "cpu_iowait_share": 0.0,
    "cpu_idle_share": 0.05,
    "server_cpu_cores": 1.5,
    "client_cpu_cores": 0.3,
}
WAITING = {"backends_active": 1.0, "backends_idle": 7.0, "backends_idle_in_transaction": 0.0}


def reported(play, rounds=3):
    samples = rounds_of(play, rounds)
    assert all(adds_up(sample.replay) for sample in samples)
    (cell,) = replays_of(summarise(run_of(before=MACHINE), samples))
    return cell


def who(play):
    return reported(play).bottleneck.who


@pytest.mark.parametrize(
    ("play", "answer"),
    [
        (Play(waits=dict(COMMIT)), "disk"),
        (Play(waits=dict(READ)), "disk"),
        (Play(waits=dict(LOCK)), "locks"),
        (Play(waits={"IPC:SyncRep": 850, "IO:WALSync": 100, "CPU": 50}), "standby"),
        (Play(waits=dict(PROCESSOR), columns=BUSY), "server CPU"),
        (Play(core_share=0.71, waits={"CPU": 1000}, columns=WAITING | IDLE), "client"),
        (Play(ceiling_per_s=1_200.0, waits={"CPU": 1000}, columns=WAITING | IDLE), "client"),
        (Play(core_share=0.71), "disk"),  # its sessions wait for the server all the same
        (Play(speed=1.0), "pace"),
        (Play(speed=5.0), "disk"),
    ],
)
def test_each_answer_is_given_where_its_ground_is(play, answer):
    assert who(play) == answer


def test_a_driver_at_seventy_percent_of_a_core_is_not_yet_the_bottleneck():
    assert who(Play(core_share=0.69, waits={"CPU": 1000}, columns=WAITING | IDLE)) == "inconclusive"


def test_a_driver_that_lacks_a_processor_is_the_client_unless_others_took_it():
    lacking = {"core_share": 0.4, "delay_share": 0.4, "waits": {"CPU": 1000}}
    found = reported(Play(**lacking, columns=WAITING | IDLE)).bottleneck
    assert found.who == "client"
    assert "waited for a CPU for 40 % of the time" in found.sentence
    assert "Excluded: " in found.sentence
    others = WAITING | BUSY | {"server_cpu_cores": 0.3, "others_cpu_cores": 1.2}
    found = reported(Play(**lacking, columns=others)).bottleneck
    assert (found.who, found.likely) == ("inconclusive", "client")
    assert "probably the client" in found.sentence
    assert found.next == "Stop the other work on the machine and repeat"


def test_a_driver_that_computes_is_not_reported_as_the_servers_processors():
    """Reported as "CPU-bound", while the server used 0.22 of 2 processors."""
    computes = WAITING | BUSY | {"server_cpu_cores": 0.22, "seatrial_cpu_cores": 1.0}
    play = Play(core_share=0.95, waits={"CPU": 1000}, columns=computes)
    found = reported(play).bottleneck
    assert found.who == "client"
    assert "its thread used 95 % of a core" in found.sentence


def test_the_drivers_thread_is_the_client_and_not_seatrials_own_work():
    play = Play(core_share=0.95, columns=WAITING | BUSY | {"seatrial_cpu_cores": 1.0})
    evidence = reported(play).bottleneck.evidence
    assert evidence["client_cpu_cores"] == pytest.approx(0.95, abs=0.02)
    assert evidence["seatrial_cpu_cores"] == pytest.approx(0.05, abs=0.02)


def with_replay(sample, **changes):
    return replace(sample, replay=replace(sample.replay, **changes))


def test_cpu_time_and_run_queue_delay_are_of_the_same_round():
    calm = sample_of(Play(core_share=0.60, delay_share=0.02))
    starved = sample_of(Play(core_share=0.40, delay_share=0.25), round=1)
    assert client_shares([calm, starved]) == pytest.approx((0.40, 0.25))
    busy = sample_of(Play(core_share=0.71, delay_share=0.0), round=2)
    assert client_shares([calm, starved, busy]) == pytest.approx((0.71, 0.0))
    assert client_shares([]) == (None, None)


@pytest.mark.parametrize(("reader", "busiest"), [(0.3, (0.5, 0.1)), (0.75, (0.75, 0.0))])
def test_of_two_threads_the_busiest_counts(reader, busiest):
    sample = sample_of(Play(core_share=0.8, delay_share=0.1))
    client = replace(sample.replay.client, reader_cpu_ns=round(reader * sample.duration_s * 1e9))
    sample = with_replay(sample, client=client)
    assert client_shares([sample]) == pytest.approx(busiest)
    assert client_cores([sample]) == pytest.approx(0.8)


def test_the_order_s_share_is_of_the_mean_number_of_connections():
    sample = sample_of(Play(order="commit", held_s=40.0))
    seldom = with_replay(sample, sessions=replace(sample.replay.sessions, open_max=100))
    assert order_share([seldom]) == order_share([sample])
    assert sessions_mean([seldom]) == pytest.approx(8.0)
    # A slice has the number at its end, when all of them are over.
    short = with_replay(seldom, timeline=[replace(sample.replay.timeline[0], sessions=0)])
    assert order_share([short]) == pytest.approx(order_share([sample]) * 8 / 100)


def test_an_order_that_holds_statements_back_is_reported_when_the_server_waits():
    play = Play(order="commit", waits={"CPU": 1000}, columns=WAITING | IDLE)
    samples = rounds_of(play)
    few = replays_of(summarise(run_of(before=MACHINE), samples))[0]
    assert few.order_share == pytest.approx(4.0 / 8 / samples[1].duration_s, rel=0.05)
    assert few.bottleneck.who == "inconclusive"  # 4 s of eight connections' time are too few
    found = reported(changed(play, held_s=60.0)).bottleneck
    assert found.who == "order"
    assert "for statements of other sessions, to preserve the captured order" in found.sentence


def test_a_server_that_waits_for_a_driver_with_time_is_inconclusive_and_says_both_causes():
    found = reported(Play(waits={"CPU": 1000}, columns=WAITING | IDLE)).bottleneck
    assert (found.who, found.bound) == ("inconclusive", "inconclusive")
    assert "network latency, or too few sessions in the capture" in found.sentence


def test_a_replay_with_think_times_does_not_blame_the_network_alone():
    samples = rounds_of(Play(speed=5.0, waits={"CPU": 1000}, columns=WAITING | IDLE))
    assert "think times" not in replays_of(summarise(run_of(), samples))[0].bottleneck.sentence
    database = samples[0].cell.spec["database"]
    thinking = database | {"replay": database["replay"] | {"pace": "think_times"}}
    cell = replace(samples[0].cell, spec=samples[0].cell.spec | {"database": thinking})
    samples = [replace(sample, cell=cell) for sample in samples]
    found = replays_of(summarise(run_of(), samples))[0].bottleneck
    assert "the sessions' think times, network latency" in found.sentence
    assert "--pace arrivals" in found.next


def test_without_waits_nothing_is_claimed():
    found = reported(Play(waits={})).bottleneck
    assert found.who == "inconclusive"
    assert "no wait events were sampled" in found.sentence


def test_of_a_server_elsewhere_it_is_said_that_its_machine_was_not_seen():
    found = reported(Play(is_remote=True)).bottleneck
    assert (found.who, found.likely) == ("inconclusive", "commit")
    assert "CPU and disks of the server's machine were not monitored" in (found.sentence)
    assert "not monitored" not in reported(Play()).bottleneck.sentence


def test_a_lag_that_grows_and_shrinks_again_is_no_pace_that_was_kept():
    """All was answered in the end, yet most statements ran seconds behind the capture."""
    found = reported(Play(speed=5.0, captured_s=600.0, captured_per_s=170.0))
    assert found.delivered.value == pytest.approx(1.0, abs=0.02)
    assert found.lateness.p50_ns > 1_000_000_000
    assert found.bottleneck.who == "disk"


def test_the_driver_s_own_figures_are_in_every_sentence():
    for play in (Play(), Play(speed=1.0), Play(waits=dict(LOCK))):
        assert "the driver used 20 % of a core" in reported(play).bottleneck.sentence
    unknown = reported(Play(ceiling_per_s=None)).bottleneck.sentence
    assert "its maximum rate was not measured" in unknown


def test_a_ceiling_that_was_passed_is_none():
    found = reported(Play(ceiling_per_s=500.0))
    assert found.ceiling_share is None
    assert found.bottleneck.who == "disk"


def test_the_evidence_holds_the_figures_of_the_sentence():
    evidence = reported(Play(speed=1.0)).bottleneck.evidence
    assert evidence["client_core_share"] == pytest.approx(0.2)
    assert evidence["within_1ms_share"] == 1.0
    assert evidence["delivered_ratio"] == pytest.approx(1.0, abs=0.01)
    assert all(isinstance(value, float | int) for value in evidence.values())


def test_every_bound_has_somebody_who_it_is():
    assert set(WHO) == set(BOUNDS)
    assert set(WHO.values()) == set(ANSWERS)


def test_the_database_s_cell_has_the_same_verdict():
    summary = summarise(run_of(before=MACHINE), rounds_of(Play(speed=1.0)))
    (part,), (replay,) = database_of(summary).cells, replays_of(summary)
    assert part.verdict.sentence == replay.bottleneck.sentence
    assert part.verdict.bound == "pace"
