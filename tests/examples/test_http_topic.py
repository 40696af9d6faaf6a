"""The example topic: known by its entry point alone, it goes all the way from study to page."""

from __future__ import annotations

import http.server
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "http"
BODY = b"fair winds and following seas\n"


class Answering(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder that holds what ``pip install examples/http`` would leave in an environment."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "seatrial_http.py").write_bytes((EXAMPLE / "seatrial_http.py").read_bytes())
    about = folder / "seatrial_http-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: seatrial-http\nVersion: 0.1.0\n")
    (about / "entry_points.txt").write_text("[seatrial.topics]\nhttp = seatrial_http:TOPIC\n")
    return folder


@pytest.fixture(scope="module")
def seatrial(installed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    program = Path(sys.executable).with_name("seatrial")

    def run(*arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [program, *arguments],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(installed)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr + done.stdout
        return done.stdout + (done.stderr if code else "")

    run.folder = folder
    return run


def study(folder: Path, url: str) -> str:
    path = folder / "web.toml"
    path.write_text(
        'name = "web"\n[rounds]\nmin = 3\nmax = 3\n[[target]]\nlabel = "server"\nkind = "null"\n'
        f'[[workload]]\nkind = "http"\nurl = "{url}"\nclients = [1, 2]\nseconds = 0.3\n'
        '[thresholds]\n"http.p50_ms" = "<= 5000"\n'
    )
    return str(path)


@pytest.fixture(scope="module")
def document(seatrial, url) -> dict[str, Any]:
    return json.loads(seatrial("study", study(seatrial.folder, url), "--json", "--label", "one"))


def test_each_request_is_accounted_for(document):
    assert [cell["key"] for cell in document["cells"]] == ["http/get/1t", "http/get/2t"]
    for sample in document["samples"]:
        outcome = sample["outcome"]
        assert outcome["completed"] == outcome["offered"] > 0
        assert sample["operations"]["get"]["transferred_bytes"] == outcome["completed"] * len(BODY)
    assert all(each["met"] for each in document["thresholds"])


def test_its_own_analysis_is_in_the_document(document):
    assert document["analyses"] == {"http": {"http/get/1t": 30.0, "http/get/2t": 30.0}}


def test_a_plan_and_the_terminal_show_it(document, seatrial, url):
    assert "1, 2 threads" in seatrial("study", study(seatrial.folder, url), "--plan")
    shown = seatrial("show", "one")
    assert "HTTP requests, server" in shown
    assert "requests/s" in shown


def test_exports_and_page_hold_it(document, seatrial):
    assert "http/get/2t" in seatrial("export", "one", "--format", "csv")
    assert "HTTP requests" in seatrial("export", "one", "--format", "markdown")
    seatrial("report", "one", "--output", "page.html")
    page = (seatrial.folder / "page.html").read_text()
    assert "HTTP answers" in page
    assert "30 bytes an answer" in page


def test_two_runs_are_compared(document, seatrial, url):
    seatrial("study", study(seatrial.folder, url), "--label", "two")
    (compared,) = json.loads(seatrial("compare", "one", "two", "--json"))["comparisons"]
    keys = {"http/get/1t", "http/get/2t"}
    assert keys <= set(re.findall(r"http/get/\dt", json.dumps(compared)))


def test_what_is_wrong_with_a_study_is_said_with_its_key(seatrial):
    assert "url is 'ftp://x'" in seatrial("study", study(seatrial.folder, "ftp://x"), code=2)


def test_nothing_else_names_it():
    tracked = subprocess.run(
        ["git", "grep", "-l", "seatrial_http"],
        cwd=EXAMPLE,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()
    assert set(tracked) <= {"pyproject.toml", "seatrial_http.py"}
