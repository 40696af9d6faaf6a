"""The ledger of a crash trial: every way in which a database could break its word is reported."""

from __future__ import annotations

import msgspec
import pytest

from seatrial.trials.database.measure.crash_ledger import Entry, Ledger, LedgerContent


def found_of(entries: list[Entry]) -> LedgerContent:
    """Return a database that holds exactly these transactions, whole."""
    left: dict[int, tuple[int, int]] = dict.fromkeys(range(1, 1001), (0, 0))
    right = dict(left)
    for entry in entries:
        left[entry.left] = (left[entry.left][0] - entry.amount, left[entry.left][1] + 1)
        right[entry.right] = (right[entry.right][0] + entry.amount, right[entry.right][1] + 1)
    return LedgerContent(entries=entries, left=left, right=right)


@pytest.fixture
def ledger():
    return Ledger(seed=7)


def send(ledger: Ledger, count: int, worker: int = 0) -> list[Entry]:
    """Send transactions, all of which are acknowledged."""
    entries = [ledger.next_entry(worker) for _ in range(count)]
    for entry in entries:
        ledger.commits(entry)
        ledger.acknowledge(entry)
    return entries


def test_all_that_was_acknowledged_is_there(ledger):
    verdict = ledger.compare(found_of(send(ledger, 20) + send(ledger, 5, worker=1)))
    assert verdict.is_ok
    assert (verdict.checked, verdict.lost) == (25, 0)


def test_an_acknowledged_transaction_that_is_gone_is_lost_once(ledger):
    entries = send(ledger, 20)
    assert ledger.compare(found_of(entries[:-3])).lost == 3
    assert ledger.compare(found_of(entries[:-3])).is_ok


def test_a_loss_shows_in_a_later_check_too(ledger):
    entries = send(ledger, 20)
    assert ledger.compare(found_of(entries)).is_ok
    assert ledger.compare(found_of(entries[1:])).lost == 1


def test_what_was_in_flight_may_be_there_or_not(ledger):
    entries = send(ledger, 4)
    kept, gone = ledger.next_entry(0), ledger.next_entry(1)
    ledger.commits(kept)
    ledger.commits(gone)
    verdict = ledger.compare(found_of([*entries, kept]))
    assert verdict.is_ok
    assert (verdict.in_flight, verdict.in_flight_kept) == (2, 1)
    # It is settled now: what was kept must stay, what was gone must not come.
    assert ledger.compare(found_of([*entries, kept])).is_ok
    changed = ledger.compare(found_of([*entries, gone]))
    assert (changed.lost, changed.unsent) == (1, 1)


def test_what_was_never_to_be_committed_must_not_be_there(ledger):
    entries = send(ledger, 4)
    never_committed = ledger.next_entry(0)
    assert ledger.compare(found_of([*entries, never_committed])).unsent == 1


def test_a_transaction_with_another_content_is_altered(ledger):
    entries = send(ledger, 4)
    wrong = Entry(0, 4, entries[3].left, entries[3].right, entries[3].amount + 1)
    verdict = ledger.compare(found_of([*entries[:3], wrong]))
    assert (verdict.altered, verdict.lost, verdict.is_ok) == (1, 0, False)


@pytest.mark.parametrize("missing", ["left", "right", "ledger", "left and right"])
def test_a_part_of_a_transaction_alone_is_half_a_transaction(ledger, missing):
    entries = send(ledger, 8)
    whole, without = found_of(entries), found_of(entries[:-1])
    parts = {
        "left": msgspec.structs.replace(whole, left=without.left),
        "right": msgspec.structs.replace(whole, right=without.right),
        "ledger": msgspec.structs.replace(whole, entries=entries[:-1]),
        "left and right": msgspec.structs.replace(without, entries=entries),
    }
    verdict = ledger.compare(parts[missing])
    assert verdict.half == 1
    assert not verdict.is_ok


def test_what_is_wrong_is_counted_by_the_first_check_that_sees_it(ledger):
    entries = send(ledger, 8)
    never_committed = ledger.next_entry(0)
    whole, without = found_of([*entries, never_committed]), found_of(entries)
    wrong = msgspec.structs.replace(whole, left=without.left)
    first, second = ledger.compare(wrong), ledger.compare(wrong)
    assert (first.half, first.unsent) == (1, 1)
    assert second.is_ok


def test_a_torn_value_is_half_a_transaction(ledger):
    found = found_of(send(ledger, 8))
    row, (value, changed) = next((r, v) for r, v in found.left.items() if v[1])
    torn = {**found.left, row: (value + 1, changed)}
    assert ledger.compare(msgspec.structs.replace(found, left=torn)).half == 1


def test_a_database_that_does_not_come_back_has_lost_all(ledger):
    send(ledger, 9)
    verdict = ledger.lose_all()
    assert (verdict.checked, verdict.lost, verdict.is_ok) == (9, 9, False)
