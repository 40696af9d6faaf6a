"""What a replay is never sent to, and what allows it: reported with cause and next step."""

from __future__ import annotations

import msgspec
import pytest

from seatrial.errors import RefusedError
from seatrial.trials.database.study.workloads import ReplaySpec
from seatrial.trials.replay.measure import replay_safety
from seatrial.trials.replay.measure.replay_safety import DatabaseState, notes_on, require_safe
from seatrial.trials.replay.study.trace_facts import trace_facts
from trials.replay.study.traces import make_trace

NUMBER = 7_575_757_575_757_575_757
PLACE = DatabaseState(
    endpoint="db:5432",
    database="shop_copy",
    user="bench",
    in_recovery=False,
    has_tables=True,
    system_identifier="1",
)


@pytest.fixture
def trace(tmp_path, monkeypatch) -> str:
    """A trace that knows whose log it is."""
    path = str(make_trace(tmp_path / "shop.trace"))
    facts = msgspec.structs.replace(trace_facts(path), system_identifier=str(NUMBER))
    monkeypatch.setattr(replay_safety, "trace_facts", lambda _path: facts)
    return path


def of(**changes) -> DatabaseState:
    return msgspec.structs.replace(PLACE, **changes)


def replay(trace: str, **changes) -> ReplaySpec:
    return ReplaySpec(trace=trace, **changes)


@pytest.mark.parametrize("typed", ["", "shop", "Shop_copy", "shop_copy "])
def test_writes_need_the_databases_name_typed_exactly(trace, typed):
    with pytest.raises(RefusedError, match="may write to the database shop_copy") as caught:
        require_safe(replay(trace, allow_writes=typed), PLACE, is_ours=False)
    assert "--allow-writes shop_copy" in str(caught.value)
    assert "--read-only" in str(caught.value)
    require_safe(replay(trace, allow_writes="shop_copy"), PLACE, is_ours=False)


def test_what_only_reads_and_what_is_ours_need_no_name(trace):
    require_safe(replay(trace, read_only=True), PLACE, is_ours=False)
    require_safe(replay(trace), PLACE, is_ours=True)


def test_a_server_in_recovery_takes_no_writes_whatever_is_typed(trace):
    standby = of(in_recovery=True)
    for allow in ([], ["recovery"]):
        requested = replay(trace, allow_writes="shop_copy", allow=allow)
        with pytest.raises(RefusedError, match="in recovery, and the replay would write"):
            require_safe(requested, standby, is_ours=False)


def test_a_standby_is_read_only_where_that_is_requested(trace):
    standby = of(in_recovery=True)
    with pytest.raises(RefusedError, match="--allow recovery"):
        require_safe(replay(trace, read_only=True), standby, is_ours=False)
    require_safe(replay(trace, read_only=True, allow=["recovery"]), standby, is_ours=False)


@pytest.mark.parametrize("is_ours", [False, True])
@pytest.mark.parametrize("read_only", [False, True])
def test_the_logs_own_server_is_refused_even_for_reading(trace, is_ours, read_only):
    own = of(system_identifier=str(NUMBER))
    requested = replay(trace, read_only=read_only, allow_writes="" if read_only else "shop_copy")
    with pytest.raises(RefusedError, match=f"system identifier {NUMBER}") as caught:
        require_safe(requested, own, is_ours=is_ours)
    assert "--allow same_system" in str(caught.value)
    allowed = msgspec.structs.replace(requested, allow=["same_system"])
    require_safe(allowed, own, is_ours=is_ours)


def test_a_trace_that_knows_no_server_is_played_anywhere(tmp_path):
    trace = str(make_trace(tmp_path / "a.trace"))
    require_safe(replay(trace, read_only=True), of(system_identifier=None), is_ours=False)


def test_what_is_worth_knowing_is_noted(trace):
    assert notes_on(replay(trace), of(user="me")) == []
    (empty,) = notes_on(replay(trace), of(user="me", has_tables=False))
    assert "shop_copy had no tables before the replay" in empty
    (unknown,) = notes_on(replay(trace), of(user="me", system_identifier=None))
    assert "It is unknown whether" in unknown
    (roles,) = notes_on(replay(trace), PLACE)
    assert roles == "All sessions were replayed as bench; in the capture they belonged to me."
