"""Threads and depth are two factors: what one thread submits may be the limit."""

import heapq

import numpy as np
import pytest

from seatrial.errors import UsageError
from seatrial.trials.audit.analysis.audit import audit_table
from seatrial.trials.audit.analysis.predict import predict
from seatrial.trials.audit.analysis.tables import observations_of
from seatrial.trials.audit.queueing.fit import threads_matter, usable_variants
from trials.audit.analysis import published
from trials.audit.analysis.synthetic import deep_rates, table_from

SIZES = [4096, 8192, 16384, 65536, 1 << 20]
SHAPES = [(1, 1), (1, 4), (1, 16), (4, 1), (4, 4), (4, 16), (16, 1), (16, 4)]
VALUES = {
    "setup_us": 80.0,
    "host_service_us": 4.0,
    "link_mib_per_s": 3000.0,
    "submit_us": 11.0,
}

ONE_SIZE = {"setup_us": 80.0, "host_service_us": 4.0, "submit_us": 20.0}


def simulated_per_s(threads, depth, *, submit_s, delay_s, host_s, seed, passes_count=20_000):
    """Requests per second: each thread submits one by one, then a delay, then one host server."""
    random = np.random.default_rng(seed)
    queues = [[] for _ in range(threads + 1)]  # of each thread, and of the host
    events, now, passes = [], 0.0, 0

    def join(place, request):
        queues[place].append(request)
        if len(queues[place]) == 1:
            serve(place)

    def serve(place):
        mean_s = host_s if place == threads else submit_s
        heapq.heappush(events, (now + random.exponential(mean_s), queues[place][0], place))

    for request in range(threads * depth):
        join(request % threads, request)
    while passes < passes_count:
        now, request, place = heapq.heappop(events)
        if place == -1:
            join(threads, request)
            continue
        queues[place].pop(0)
        if queues[place]:
            serve(place)
        if place == threads:
            passes += 1
            join(request % threads, request)
        else:
            heapq.heappush(events, (now + random.exponential(delay_s), request, -1))
    return passes / now


@pytest.mark.parametrize("shape", [(1, 1), (1, 16), (4, 1), (4, 4), (16, 4)])
def test_the_form_is_near_to_threads_simulated_one_by_one(shape):
    values = {"setup_us": 80.0, "host_service_us": 4.0, "submit_us": 11.0}
    (reported,) = deep_rates(values, [4096], [shape]).values()
    seen = simulated_per_s(*shape, submit_s=11e-6, delay_s=80e-6, host_s=4e-6, seed=3)
    assert reported == pytest.approx(seen, rel=0.06)


@pytest.mark.parametrize("seed", range(3))
def test_the_limit_of_a_thread_is_no_hiccup(seed):
    table = table_from(deep_rates(VALUES, SIZES, SHAPES), noise_log=0.03, seed=seed)
    audit = audit_table(table)
    assert audit.holds
    assert audit.gaps == []
    (submit,) = [each for each in audit.parameters if each.name == "submit_us"]
    assert submit.value == pytest.approx(11.0, rel=0.15)
    assert submit.sentence.startswith("Submitting a read takes a thread 1")
    assert "more threads reach more" in submit.sentence


def test_a_thread_without_a_limit_has_no_such_parameter():
    values = {name: VALUES[name] for name in VALUES if name != "submit_us"}
    for seed in range(3):
        table = table_from(deep_rates(values, SIZES, SHAPES), noise_log=0.05, seed=seed)
        assert "submit_us" not in {each.name for each in audit_table(table).parameters}


def test_depth_alone_knows_no_threads():
    shapes = [(1, depth) for depth in (1, 2, 4, 8, 16, 32)]
    observed = observations_of(table_from(deep_rates(VALUES, SIZES, shapes)))
    assert not threads_matter(observed)
    assert all("submit_us" not in each.names for each in usable_variants(observed))


def test_a_single_deep_cell_that_is_slow_may_be_its_thread():
    """One cell shows no law; the cause names what would tell."""
    shapes = [(1, 16), *((1 << shift, 1) for shift in range(7))]
    (found,) = audit_table(table_from(deep_rates(ONE_SIZE, [4096], shapes))).gaps
    assert found.keys == ["matrix/read/4096B/1t/16d"]
    assert "Or 1 thread cannot submit more" in found.cause


def test_predictions_ask_for_threads_and_depth_where_both_matter():
    audit = audit_table(table_from(deep_rates(VALUES, SIZES, SHAPES), noise_log=0.02))
    with pytest.raises(UsageError, match="4x8 for 4 threads"):
        predict(audit, 4096, 16)
    one, four = (predict(audit, 4096, 16, threads) for threads in (1, 4))
    assert four.iops > 1.4 * one.iops
    assert predict(audit, 8192, 16, 4) == audit.predictions["matrix/read/8192B/4t/4d"]


def test_published_reads_that_one_thread_limits():
    """One thread ends at 2,200 IOPS from depth 16 on, two at 4,000, four at 4,000."""
    audit = published.audit("test-ceph-hdd")
    (submit,) = [each for each in audit.parameters if each.name == "submit_us"]
    assert "2,200" in submit.sentence
    assert not any("/1t/64d" in key for gap in audit.gaps for key in gap.keys)
