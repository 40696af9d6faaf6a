"""The connection to a Ray cluster says in one sentence what is missing."""

from __future__ import annotations

import socket
import sys

import pytest

from seatrial.fleet.cluster import ClusterError, connect, ray_module


def test_without_the_extra_one_sentence_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ClusterError) as caught:
        connect("127.0.0.1:6379")
    assert caught.value.next_step == (
        "Install it with `pip install 'seatrial[ray]'` on every host."
    )
    assert caught.value.exit_code == 6


def test_the_settings_of_the_user_stay(monkeypatch):
    monkeypatch.setenv("RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL", "patch")
    monkeypatch.setitem(sys.modules, "ray", socket)
    assert ray_module() is socket
    import os

    assert os.environ["RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL"] == "patch"
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


def test_an_address_at_which_nothing_answers(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", socket)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(ClusterError, match=f"Nothing answers at 127.0.0.1:{port}"):
        connect(f"127.0.0.1:{port}")


@pytest.mark.parametrize("address", ["head", "ray://head:10001", ":6379", "head:port"])
def test_what_is_not_an_address(monkeypatch, address):
    monkeypatch.setitem(sys.modules, "ray", socket)
    with pytest.raises(ClusterError, match="is not the address of a Ray head"):
        connect(address)
