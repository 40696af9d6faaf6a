"""The comparison of databases: tps and latencies, and the settings that differ."""

from __future__ import annotations

from report.comparison_hand import make_comparand, make_comparison, ratio
from report.exports_hand import estimate
from report.page_reader import embedded, read
from seatrial.report.comparison_page import comparison_table, overall_table, render
from seatrial.stats.compare.model import Difference, FigureComparison, Overall

ANSWER = Overall(cells=2, p_value=0.001, p_adjusted=0.004, answer="higher")


def overall(*figures: str) -> dict[str, dict[str, object]]:
    return {
        "overall": dict.fromkeys(figures, ratio(1.25, 1.2, 1.3)),
        "overall_answers": dict.fromkeys(figures, ANSWER),
    }


def of_database(figure: str = "tps", clients: int = 10) -> FigureComparison:
    identity = {
        "workload": "pgbench", "operation": "transaction", "block_size_bytes": 0,
        "threads": clients, "depth": 1, "scale": 100, "shared_buffers": "1GB",
    }  # fmt: skip
    unit = "tps" if figure == "tps" else "ns"
    return make_comparand(
        figure,
        key=f"pgbench/{clients}c",
        identity=identity,
        a=estimate((1_000, 980, 1_020), unit, 5),
        b=estimate((1_250, 1_220, 1_280), unit, 5),
    )


def made():
    return make_comparison(
        [of_database(), of_database(clients=40), of_database("transaction p99")],
        **overall("tps", "transaction p99"),
        differences=[
            Difference(
                path="database.settings.full_page_writes",
                words="setting full_page_writes",
                a="on",
                b="off",
                weight="likely",
            )
        ],
    )


def test_rows_report_clients_settings_and_tps():
    rows = comparison_table(made()).rows
    assert rows[0][0] == "pgbench: 10 clients, scale 100, shared_buffers 1GB"
    assert [row[1] for row in rows] == ["tps", "tps", "transaction p99"]
    assert rows[0][2] == "1,000 tps"
    assert overall_table(made()).rows[0][0] == "tps"
    assert "thread" not in str(rows)


def test_databases_and_devices_together_keep_their_own_rates():
    both = make_comparison([of_database(), make_comparand()], **overall("tps", "iops"))
    assert [row[1] for row in comparison_table(both).rows] == ["tps", "IOPS"]
    assert [row[0] for row in overall_table(both).rows] == ["tps", "IOPS"]


def test_the_page_draws_ratios_of_tps_and_reports_the_settings():
    document = read(render([made()]))
    (figure,) = embedded(document)["figures"]
    assert [view["label"] for view in figure["views"]] == ["tps", "Transaction p99"]
    assert figure["views"][0]["title"].startswith("tps of after: 2 higher")
    labels = [row["label"] for row in figure["views"][0]["rows"]]
    assert labels == ["all 2 tests together", "10 clients", "40 clients"]
    assert "setting full_page_writes" in document.one(id="pair-1-differences").text
    assert "IOPS" not in document.one("main").text
