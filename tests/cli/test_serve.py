"""`seatrial serve` with a real HTTP client: who may ask, what is shown, what may be changed."""

from __future__ import annotations

import http.client
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import pytest

from cli.command import seatrial, start
from report.index_sample import RATES, store_runs
from seatrial.results.store import ResultsFile

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'seatrial[serve]'")


@dataclass
class Client:
    """A browser's part: one host and port, the cookie that it was given."""

    port: int
    token: str
    cookie: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def ask(
        self, path: str, fields: dict[str, str] | None = None, **headers: str
    ) -> tuple[int, dict[str, str], str]:
        """Status, headers (by small letters) and text of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {"Host": f"127.0.0.1:{self.port}"}
        if self.cookie:
            sent["Cookie"] = self.cookie
        body = None
        if fields is not None:
            body = urlencode(fields)
            sent["Content-Type"] = "application/x-www-form-urlencoded"
            sent["Origin"] = f"http://127.0.0.1:{self.port}"
        sent |= {name.capitalize(): value for name, value in headers.items()}
        sent = {name: value for name, value in sent.items() if value}
        connection.request("GET" if fields is None else "POST", path, body, sent)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, text

    def csrf(self) -> str:
        found = re.search(r'name="csrf" value="([^"]+)"', self.ask("/")[2])
        assert found
        return found[1]

    def post(self, path: str, **fields: str) -> int:
        return self.ask(path, {"csrf": self.csrf(), **fields})[0]


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("serve")
    results = folder / "results.seatrial"
    with ResultsFile.open(results, create=True) as file:
        store_runs(file, RATES[:3])
    process = start("serve", folder=folder)
    assert process.stdout
    first = process.stdout.readline()
    address = process.stdout.readline()
    found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)\n", address)
    assert found, first + address + (process.stderr.read() if process.stderr else "")
    client = Client(int(found[1]), found[2])
    assert client.ask("/")[0] == 403
    assert client.ask(f"/?token={client.token}x")[0] == 403
    assert client.ask(f"/?token={client.token}", host="evil.example")[0] == 421
    status, headers, _ = client.ask(f"/?token={client.token}")
    assert status == 200
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    client.cookie = cookie.partition(";")[0]
    yield client, results
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "", "Stopping.\n")


def runs(results):
    with ResultsFile.open(results, read_only=True) as file:
        return file.runs()


def test_the_token_works_once(served):
    client, _ = served
    other = Client(client.port, client.token)
    assert other.ask(f"/?token={client.token}")[0] == 403
    assert other.ask("/runs/20261101-074500-0000")[0] == 403
    other.cookie = f"seatrial-{client.port}=guessed"
    assert other.ask("/")[0] == 403


def test_the_cookie_of_another_port_is_another_one(served):
    # A browser sends the cookies of a host to all its ports: a second server must not replace it.
    client, _ = served
    name, _, value = client.cookie.partition("=")
    assert str(client.port) in name
    other = Client(client.port, client.token, cookie=f"seatrial-1={value}; {client.cookie}")
    assert other.ask("/")[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "[::1]:80"])
def test_another_host_is_not_answered(served, host):
    client, _ = served
    status, _, text = client.ask("/", host=host)
    assert status == 421
    assert "night" not in text


def test_the_index_and_its_pages_are_served(served):
    client, _ = served
    status, headers, text = client.ask("/")
    assert status == 200
    assert "3 runs" in text
    assert "<script" not in text
    assert headers["cache-control"] == "no-store"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    for link in re.findall(r'href="(/[^"]+)"', text):
        assert client.ask(link.replace("&amp;", "&"))[0] == 200, link
    assert client.ask("/runs/absent")[0] == 404
    assert client.ask("/etc/passwd")[0] == 404


def test_two_selected_runs_are_compared(served):
    client, _ = served
    ids = ("20261101-074500-0000", "20261103-074500-0002")
    status, _, text = client.ask("/compare?" + urlencode([("run", each) for each in ids]))
    assert status == 200
    assert ids[1] in text
    assert client.ask(f"/compare?run={ids[0]}")[0] == 404
    assert client.ask("/compare")[0] == 404


def test_runs_are_renamed_and_annotated(served):
    client, results = served
    assert client.post("/runs/20261102-074500-0001/rename", label="baseline <b>") == 303
    assert client.post("/runs/20261102-074500-0001/annotate", note="one\r\ntwo") == 303
    assert (runs(results)[1].label, runs(results)[1].note) == ("baseline <b>", "one\ntwo")
    text = client.ask("/")[2]
    assert "baseline &lt;b&gt;" in text
    assert "Stored the note about" in text
    assert "Stored the note about" not in client.ask("/")[2]
    assert client.post("/runs/20261102-074500-0001/rename", label="x" * 101) == 409


def test_what_is_not_from_the_page_changes_nothing(served):
    client, results = served
    before = runs(results)
    path = f"/runs/{before[0].id}/delete"
    form = {"csrf": client.csrf(), "confirmed": "yes"}
    assert client.ask(path, form | {"csrf": "guessed"})[0] == 403
    assert client.ask(path, form, origin="http://evil.example")[0] == 403
    assert client.ask(path, form, origin="")[0] == 403
    assert client.ask(path, form, host="evil.example")[0] == 421
    assert client.ask(path, form, cookie="seatrial=guessed")[0] == 403
    assert client.ask(path, form | {"more": "x" * 70_000})[0] == 403
    assert client.ask(path)[0] == 405
    assert client.ask(path, {"csrf": form["csrf"]})[0] == 409
    assert runs(results) == before


def test_a_run_is_deleted(served):
    client, results = served
    assert client.post("/runs/20261103-074500-0002/delete", confirmed="yes") == 303
    assert len(runs(results)) == 2
    assert "2 runs" in client.ask("/")[2]


def test_a_port_that_is_taken_is_named(served, tmp_path):
    client, results = served
    ended = seatrial("serve", "--port", client.port, "--results", results, folder=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert f"Port {client.port} of 127.0.0.1 cannot be used" in ended.err


def test_a_missing_extra_is_named(monkeypatch):
    import importlib.util

    from seatrial.cli.serve_command import _require_packages
    from seatrial.errors import UsageError

    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(UsageError, match=r"pip install 'seatrial\[serve\]'"):
        _require_packages()
