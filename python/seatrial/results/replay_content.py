"""What the rows of a database were at the end of a replay, held against those of the capture."""

from __future__ import annotations

from typing import Final

import msgspec

CAPTURE: Final = "capture"
REPLAY: Final = "replay"


class TableDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A table whose rows are not those of the capture.

    Attributes:
        name: By schema and name.
        rows_captured: That the captured database holds.
        rows_now: That this one holds.
        rows_different: Of the larger side, rows that the other one lacks. The values of generated
            ids do not count, but which row each names does.
        columns: Rows that differ by column, those of most rows first; none where rows are
            only missing.
    """

    name: str
    rows_captured: int
    rows_now: int
    rows_different: int
    columns: dict[str, int] = {}


class ReplayContent(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a replay's database against those of the captured one.

    Attributes:
        against: ``capture``, ``replay`` (an earlier one of the run, as nothing tells what the
            captured database held), or empty where nothing was compared.
        file: What holds the captured ones; of a replay, which one it was.
        taken_at: When these were read, as Unix time in s.
        tables: Tables that were compared.
        rows: Rows of these in the captured database.
        different: Of these, the tables that differ, those with the most rows first.
        not_judged: Columns that differ as they may: filled by the clock or by chance.
        not_compared: Tables that were not, each with the reason.
        reason: Why nothing was compared; empty where something was.
        looked_s: How long reading and comparing took.
    """

    against: str = ""
    file: str = ""
    taken_at: float = 0.0
    tables: int = 0
    rows: int = 0
    different: list[TableDifference] = []
    not_judged: list[str] = []
    not_compared: dict[str, str] = {}
    reason: str = ""
    looked_s: float = 0.0

    @property
    def is_same(self) -> bool:
        """Whether every table was compared, and all of them hold the captured rows."""
        is_whole = self.tables > 0 and not self.not_compared
        return self.against == CAPTURE and is_whole and not self.different
