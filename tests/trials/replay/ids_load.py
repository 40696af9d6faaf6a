"""Loads whose statements name rows by ids that the server gave, and what the tables hold then.

Each row has a key that its client made up, so what became of a row is known whatever its id.
"""

from __future__ import annotations

from pathlib import Path

from trials.replay.logging_server import LoggingServer

CLIENTS = 8
ORDERS = 1_000
"""Of each client."""
OLD = 1_000
"""Rows that are there before."""

ORDERS_TABLE = f"""
    CREATE TABLE orders (
        id serial PRIMARY KEY, key bigint UNIQUE, amount int, paid bigint, touched int DEFAULT 0
    );
    INSERT INTO orders (key, amount) SELECT -n, n FROM generate_series(1, {OLD}) AS n;
"""
ORDERS_HELD = "SELECT key, amount, paid, touched FROM orders ORDER BY key"
"""All that matters of an order: not its id."""
WRONG_ORDERS = """
    SELECT count(*) FROM orders
    WHERE key > 0 AND (touched <> 1 OR paid IS DISTINCT FROM key * 7 % 1009)
        OR key < 0 AND touched <> 0
"""
"""Orders that were not paid as they should be, once."""
SCRIPT = r"""
\set id 0
\set amount random(1, 20000)
\set key random(1, 1000000000000)
\set paid :key * 7 % 1009
INSERT INTO orders (key, amount) VALUES (:key, :amount) RETURNING id \gset
UPDATE orders SET paid = :paid, touched = touched + 1 WHERE id = :id;
"""
"""The amounts are as great as the ids, and more of them are equal to one than not."""


def orders_load(server: LoggingServer, protocol: str, folder: Path) -> int:
    """Insert orders and pay each by its id, in several sessions at once; return how many."""
    script = folder / "orders.sql"
    script.write_text(SCRIPT)
    return server.pgbench(
        "--no-vacuum",
        f"--client={CLIENTS}",
        "--jobs=2",
        f"--protocol={protocol}",
        f"--transactions={ORDERS}",
        f"--file={script}",
    )
