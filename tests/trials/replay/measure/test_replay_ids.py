"""A replay maps ids by the target's catalogue, and refuses a target that stands elsewhere."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from postgres.programs import installed_programs
from seatrial.errors import RefusedError
from seatrial.postgres.connection import connect
from trials.database.measure.trial import trial
from trials.replay.logging_server import MODES, LoggingServer, logging_server
from trials.replay.study.traces import read_csv

CLIENTS, ORDERS = 4, 100
TABLE = "CREATE TABLE orders (id serial PRIMARY KEY, key bigint, paid bigint, times int DEFAULT 0)"
SCRIPT = r"""
\set key random(1, 1000000000000)
INSERT INTO orders (key) VALUES (:key) RETURNING id \gset
UPDATE orders SET paid = :key, times = times + 1 WHERE id = :id;
"""
WRONG = "SELECT count(*) FROM orders WHERE paid IS DISTINCT FROM key OR times <> 1"
STUDY = """
    name = "ids"
    [[target]]
    label = "here"
    url = "{url}"
    [[workload]]
    kind = "replay"
    trace = "{trace}"
    clone = "template"
    {more}
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    with logging_server(tmp_path_factory.mktemp("source"), installed_programs()) as server:
        run(server, "postgres", "CREATE DATABASE shop")
        run(server, "shop", TABLE)
        run(server, "postgres", "CREATE DATABASE snapshot TEMPLATE shop")
        yield server


@pytest.fixture(scope="module")
def trace(source: LoggingServer, tmp_path_factory) -> Path:
    """Orders that are paid by their ids, captured."""
    folder = tmp_path_factory.mktemp("traces")
    folder.chmod(0o755)
    (folder / "orders.sql").write_text(SCRIPT)
    options = ("--no-vacuum", f"--client={CLIENTS}", f"--transactions={ORDERS}")
    with source.logging("orders", **MODES["log_min_duration"]):
        source.pgbench(*options, f"--file={folder / 'orders.sql'}", "shop")
    assert ask(source, "shop", WRONG) == 0
    return read_csv(source.log("orders", "csv"), folder / "orders.trace")


def run(source: LoggingServer, dbname: str, statement: str) -> None:
    with contextlib.closing(connect(source.server.address, dbname=dbname)) as connection:
        connection.execute(statement.encode())


def ask(source: LoggingServer, dbname: str, query: str) -> object:
    with contextlib.closing(connect(source.server.address, dbname=dbname)) as connection:
        return connection.execute(query.encode()).fetchone()[0]


def study(source: LoggingServer, trace: Path, more: str = "", dbname: str = "snapshot") -> str:
    address = source.server.address
    url = f"postgresql://{address.user}@/{dbname}?host={address.host}"
    return STUDY.format(url=url, trace=trace, more=more)


def test_ids_are_mapped_unless_they_are_to_be_sent_as_captured(tmp_path, source, trace):
    more = 'databases = ["shop"]\n    ids = ["infer", "off"]'
    with trial(tmp_path, study(source, trace, more)) as here:
        inferred, off = (here.measure_cell(cell).replay for cell in here.plan.cells)
    (orders,) = inferred.ids.classes
    assert inferred.ids.mode == "infer"
    assert orders.column == "public.orders.id"
    assert orders.rewritten == orders.uses == CLIENTS * ORDERS
    assert (orders.next_value_target, orders.next_value_log) == (1, 1)
    assert inferred.rows.empty_writes == 0
    assert off.ids.mode == "off"


@pytest.mark.parametrize("order", ["object", "key", "strict"])
def test_orders_ask_the_catalogue(tmp_path, source, trace, order):
    more = f'databases = ["shop"]\n    order = "{order}"'
    with trial(tmp_path, study(source, trace, more)) as here:
        record = here.measure("replay").replay
    assert record.order.mode == order
    assert record.errors.new == record.rows.empty_writes == 0
    assert record.total.ok == 2 * CLIENTS * ORDERS


def test_sequences_that_stand_elsewhere_are_refused_before_anything_is_sent(
    tmp_path, source, trace
):
    run(source, "postgres", "CREATE DATABASE later TEMPLATE snapshot")
    run(source, "later", "SELECT setval('orders_id_seq', 500)")
    allowed = 'databases = ["shop"]\n    allow_writes = "later"\n    clone = "reuse"'
    text = study(source, trace, allowed, "later").replace('    clone = "template"\n', "")
    words = "next value of public.orders_id_seq is 501, but the log's first value is 1"
    with trial(tmp_path, text) as here, pytest.raises(RefusedError, match=words) as refused:
        here.measure("replay")
    assert "--allow sequence_mismatch" in str(refused.value)
    assert ask(source, "later", "SELECT count(*) FROM orders") == 0
    with trial(tmp_path, f'{text}    allow = ["sequence_mismatch"]\n') as here:
        sample = here.measure("replay")
    assert any("do not match the start of the log" in note for note in sample.database.notes)
    (orders,) = sample.replay.ids.classes
    assert orders.rewritten == 0
    assert orders.unresolved == {"sequence_elsewhere": CLIENTS * ORDERS}
