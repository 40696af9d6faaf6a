"""The record of a replay comes back from JSON, and adds up."""

from __future__ import annotations

import msgspec

from results.replay_records import make_replay_record
from seatrial.results.replay import ReplayAccount, ReplayRecord


def test_a_record_comes_back_from_json():
    record = make_replay_record()
    encoded = msgspec.json.encode(record)
    assert b'"class":"select"' in encoded
    assert msgspec.json.decode(encoded, type=ReplayRecord) == record


def test_accounts_add_up_over_all_classes():
    record = make_replay_record()
    assert all(account.adds_up for account in record.classes.values())
    total = record.total
    assert (total.captured, total.sent, total.not_reached) == (1105, 1082, 10)
    assert total.skipped == {"dependent": 8, "copy_data": 5}
    assert total.adds_up
    assert not ReplayAccount(captured=3, ok=1, failed=1).adds_up
