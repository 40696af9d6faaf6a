"""What a database held when a replay began: kept with the sample, compared between rounds."""

from __future__ import annotations

import msgspec


class StartRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The state that a sample began with, as far as it was looked at.

    Attributes:
        lsn: Where the server's log stood; empty where that may not be read.
        checkpoint_lsn: The last checkpoint of files that were copied; empty of any other database,
            for a server that others write to goes on.
        sequences: The value that each gives next, by schema and name; None where it has none left.
        rows: Of each table that was counted, by schema and name.
        contents: A fingerprint of the rows of each table that was read whole, whatever their
            order, by schema and name; empty where the database had to be migrated for the sample.
        rows_estimated: Of each other table, as ``ANALYZE`` left it; None where it never ran.
        unread: Sequences and tables that the user may not read.
        restored: What brought the database here: ``reflink``, ``copy``, ``template``, ``reuse``,
            ``restore`` (the user's command); empty where it was taken as it was.
        lsn_unrestored: Where the server's log stood before the user's command; empty without one.
        source_rows_written: Rows that were inserted, updated or deleted in the database that is
            copied, since its server counts; None of any other.
        looked_s: How long looking took.
    """

    lsn: str = ""
    checkpoint_lsn: str = ""
    sequences: dict[str, int | None] = {}
    rows: dict[str, int] = {}
    contents: dict[str, str] = {}
    rows_estimated: dict[str, float | None] = {}
    unread: list[str] = []
    restored: str = ""
    lsn_unrestored: str = ""
    source_rows_written: int | None = None
    looked_s: float = 0.0
