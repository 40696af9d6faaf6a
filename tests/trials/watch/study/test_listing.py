"""What is sent of a recording, and where it goes on another target."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.trials.watch.study.listing import OTHERS_MAX, Rules, requests_of
from seatrial.units import MIB
from trials.watch.recordings import FLUSH, READ, WRITE, recording

LARGE = Rules(speed=1.0, size_bytes=1 << 40, block_bytes=512)
DISCARD = 3


def rules(**changes):
    return Rules(**{**{name: getattr(LARGE, name) for name in Rules.__struct_fields__}, **changes})


def test_a_target_that_is_large_enough_keeps_offsets_lengths_and_times():
    recorded = recording(
        arrived_ns=[1_000, 3_000, 3_000],
        operation=[READ, WRITE, FLUSH],
        offset_bytes=[8192, 1 << 30, 0],
        length_bytes=[4096, 512, 0],
    )
    found = requests_of(recorded, LARGE)
    assert found.records["due_ns"].tolist() == [0, 2_000, 2_000]
    assert found.records["offset_bytes"].tolist() == [8192, 1 << 30, 0]
    assert found.records["length_bytes"].tolist() == [4096, 512, 0]
    assert found.records["operation"].tolist() == [0, 1, 2]
    assert found.records.dtype.itemsize == 32
    sent = found.sent
    assert (sent.requests, sent.wrapped, sent.extended, sent.left_out) == (3, 0, 0, {})
    assert {name: each.requests for name, each in sent.operations.items()} == {
        **{"read": 1, "write": 1, "sync": 1}
    }


@pytest.mark.parametrize(("speed", "due_ns"), [(2.0, [0, 500]), (0.5, [0, 2_000])])
def test_a_speed_divides_the_times(speed, due_ns):
    found = requests_of(recording(arrived_ns=[7_000, 8_000]), rules(speed=speed))
    assert found.records["due_ns"].tolist() == due_ns


def test_devices_follow_each_other():
    recorded = recording(
        arrived_ns=[0, 1, 2], device=[0, 1, 1], offset_bytes=[MIB, 0, 4096], length_bytes=[512] * 3
    )
    found = requests_of(recorded, LARGE)
    assert found.records["offset_bytes"].tolist() == [MIB, 2 * MIB, 2 * MIB + 4096]
    assert found.sent.extent_bytes == 3 * MIB
    only = requests_of(recorded, rules(device="sdb"))
    assert only.records["offset_bytes"].tolist() == [0, 4096]
    assert only.sent.left_out == {"of other devices": 1}


def test_a_smaller_target_wraps_offsets_and_says_how_many():
    recorded = recording(
        arrived_ns=[0, 1, 2],
        offset_bytes=[4096, 16384 + 4096, 16384 - 4096],
        length_bytes=[4096, 4096, 8192],
    )
    found = requests_of(recorded, rules(size_bytes=16384))
    assert found.records["offset_bytes"].tolist() == [4096, 4096, 8192]
    assert found.sent.wrapped == 2


def test_requests_are_extended_to_whole_blocks():
    recorded = recording(arrived_ns=[0, 1], offset_bytes=[512, 8192], length_bytes=[4096, 4096])
    found = requests_of(recorded, rules(block_bytes=4096))
    assert found.records["offset_bytes"].tolist() == [0, 8192]
    assert found.records["length_bytes"].tolist() == [8192, 4096]
    assert found.sent.extended == 1


def test_what_is_not_sent_is_counted():
    recorded = recording(
        arrived_ns=[0, 1, 2, 3],
        operation=[READ, DISCARD, READ, WRITE],
        length_bytes=[4096, 4096, 0, 1 << 20],
    )
    found = requests_of(recorded, rules(size_bytes=8192))
    assert found.sent.left_out == {"discards": 1, "without data": 1, "longer than the target": 1}
    assert found.sent.requests == 1


def test_at_full_speed_a_request_waits_for_as_many_completions_as_recorded():
    # The first two overlap; the third arrives when the first has completed.
    recorded = recording(arrived_ns=[0, 10, 30], queue_ns=[5, 0, 0], device_ns=[20, 50, 5])
    found = requests_of(recorded, rules(speed=0.0))
    assert found.records["others_max"].tolist() == [0, 1, 1]
    assert found.records["due_ns"].tolist() == [0, 0, 0]
    assert (found.sent.keeps_dependence, found.sent.others_max) == (True, 1)


def test_without_latencies_dependence_is_not_known():
    found = requests_of(recording(arrived_ns=[0, 10]), rules(speed=0.0))
    assert found.sent.keeps_dependence is False
    assert found.records["others_max"].tolist() == [OTHERS_MAX] * 2


def test_recorded_latency_is_that_of_queue_and_device():
    count = 200
    recorded = recording(arrived_ns=range(count), queue_ns=[7] * count, device_ns=range(count))
    latency = requests_of(recorded, LARGE).sent.operations["read"].latency_ns
    assert latency == {"p50": 99 + 7, "p90": 179 + 7, "p100": 199 + 7}  # too few for a p99


def test_what_is_due_is_counted_by_steps():
    arrived_ns = [0, 50_000_000, 150_000_000, 1_000_000_000]
    sent = requests_of(recording(arrived_ns=arrived_ns), LARGE).sent
    assert sent.due_step_s == pytest.approx(0.1)
    assert sent.due_counts == [2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**9),
            st.sampled_from([READ, WRITE, FLUSH, DISCARD]),
            st.integers(0, 1 << 34),
            st.integers(0, 1 << 21),
            st.integers(0, 1),
            st.integers(-1, 10**8),
        ),
        max_size=40,
    ),
    st.sampled_from([0.0, 0.5, 3.0]),
    st.sampled_from([512, 4096]),
    st.integers(4096, 1 << 33),
)
def test_every_request_lies_on_the_target_or_is_counted(requests, speed, block_bytes, size_bytes):
    columns = [list(each) for each in zip(*requests, strict=True)] or [[]] * 6
    names = ("arrived_ns", "operation", "offset_bytes", "length_bytes", "device", "device_ns")
    recorded = recording(**dict(zip(names, columns, strict=True)))
    found = requests_of(
        recorded, Rules(speed=speed, size_bytes=size_bytes, block_bytes=block_bytes)
    )
    records, sent = found.records, found.sent
    assert len(records) == sent.requests
    assert sent.requests + sum(sent.left_out.values()) == recorded.requests
    ends = records["offset_bytes"].astype(np.int64) + records["length_bytes"]
    assert (ends <= size_bytes).all()
    assert not (records["offset_bytes"] % block_bytes).any()
    assert not (records["length_bytes"] % block_bytes).any()
    assert (np.diff(records["due_ns"].astype(np.int64)) >= 0).all()
