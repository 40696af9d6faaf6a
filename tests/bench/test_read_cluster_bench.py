"""A log read by three nodes, one of which is killed, becomes the same bytes as by one process."""

from __future__ import annotations

import pytest
import read_cluster
import server_log
from ray_nodes import Nodes


def page(large: tuple[int, dict[str, float]] | None) -> str:
    return read_cluster.section(
        read_cluster.BenchResult(
            conditions=["- a machine"],
            log_bytes=100_000_000,
            real_s={
                read_cluster.HERE: [1.0, 2.0, 1.0, 3.0, 1.0, 1.0],
                read_cluster.THERE: [4.0, 8.0, 4.0, 12.0, 4.0, 4.0],
            },
            large=large,
            sha256="0123abcd",
            seed=1,
            loads=[0.5] * 6,
        )
    )


def test_its_ratio_is_taken_inside_each_round():
    assert "| three nodes / one process, real time | 4.00 (4.00 to 4.00) |" in page(None)
    assert "killed" not in page(None)


def test_the_killed_node_is_on_the_page():
    text = page((2 * 10**9, {read_cluster.HERE: 19.0, read_cluster.THERE: 60.0}))
    assert (
        "was killed when a tenth of the trace was written. Both traces have the SHA-256 0123abcd."
        in text
    )
    assert "| 1.86 GiB, three nodes, s, once | 60 |" in text


@pytest.mark.ray
def test_three_nodes_of_which_one_is_killed_make_the_same_bytes(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'seatrial[ray]'")
    log = tmp_path / "log.csv"
    server_log.write_log(log, "csv", 600_000)
    _, here = read_cluster.read(log, tmp_path, None)
    with Nodes(3) as nodes:
        _, there = read_cluster.read(log, tmp_path, nodes)
        assert there == here
        # The first of five row groups is written.
        _, after_death = read_cluster.read(log, tmp_path, nodes, kill_at_bytes=1000)
        assert after_death == here
