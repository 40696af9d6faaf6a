"""Money that pgbench moved is all still there, or a note says where it is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Self

import pytest

from seatrial.errors import TargetError
from seatrial.results.model import Outcome, Timeline
from seatrial.trials.database.measure import stage
from seatrial.trials.database.measure.driver_result import Completions, DriverResult, Endpoints

EQUAL = {"accounts": 7, "tellers": 7, "branches": 7, "history": 7}


class Server:
    """Answers a query of a table's sum by the table's name."""

    sums: dict[str, int]
    error: TargetError | None = None

    def __init__(self, _endpoints: Endpoints, _address: object) -> None:
        if self.error:
            raise self.error
        self.connection = self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        pass

    def execute(self, query: bytes) -> Any:
        name = next(name for name in self.sums if f"pgbench_{name}".encode() in query)
        return SimpleNamespace(fetchone=lambda: (self.sums[name],))


def checked(monkeypatch, script: str = "tpcb-like", error: TargetError | None = None, **sums: int):
    monkeypatch.setattr(Server, "sums", EQUAL | sums, raising=False)
    monkeypatch.setattr(Server, "error", error)
    monkeypatch.setattr(stage, "ServerSession", Server)
    result = DriverResult(
        completions=Completions(
            started_at=0.0,
            duration_s=1.0,
            outcome=Outcome(offered=0, completed=0, failed=0, late_skipped=0, in_flight_at_end=0),
            operations={},
            timeline=Timeline(slice_ns=1, slices=[]),
        ),
        interrupted=False,
        reported={"tps": 9.0},
        cpu_user_s=0.0,
        cpu_system_s=0.0,
        client_cpu_share=None,
    )
    return stage.with_invariant(result, SimpleNamespace(addresses=["a", "b"]), script)


def test_equal_sums_hold(monkeypatch):
    found = checked(monkeypatch)
    assert (found.reported, found.notes) == ({"tps": 9.0, "invariant_holds": 1.0}, [])


@pytest.mark.parametrize("table", EQUAL)
def test_a_sum_that_differs_is_reported_of_each_database(monkeypatch, table):
    found = checked(monkeypatch, **{table: 8})
    assert found.reported["invariant_holds"] == 0.0
    assert len(found.notes) == 2
    assert f"{table} 8" in found.notes[0]


def test_what_a_script_does_not_move_is_not_compared(monkeypatch):
    assert checked(monkeypatch, "simple-update", tellers=0).reported["invariant_holds"] == 1.0
    assert checked(monkeypatch, "simple-update", history=0).reported["invariant_holds"] == 0.0
    assert "invariant_holds" not in checked(monkeypatch, "select-only").reported
    assert "invariant_holds" not in checked(monkeypatch, "mine.sql").reported


def test_a_server_that_cannot_read_its_tables_has_not_kept_them(monkeypatch):
    error = TargetError(seen="Input/output error.", cause="A drive.", next_step="Look.")
    found = checked(monkeypatch, error=error)
    assert found.reported["invariant_holds"] == 0.0
    assert "Input/output error" in found.notes[0]
