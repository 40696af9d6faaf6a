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
    for module in EXAMPLE.glob("*.py"):
        (folder / module.name).write_bytes(module.read_bytes())
    about = folder / "seatrial_http-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: seatrial-http\nVersion: 0.1.0\n")
    (about / "entry_points.txt").write_text("[seatrial.topics]\nhttp = seatrial_http:TOPIC\n")
    return folder


def python_path(installed: Path) -> str:
    """The search path with the example ahead of what it already names."""
    return os.pathsep.join(filter(None, [str(installed), os.environ.get("PYTHONPATH", "")]))


@pytest.fixture(scope="module")
def seatrial(installed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    program = Path(sys.executable).with_name("seatrial")

    def run(*arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [program, *arguments],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": python_path(installed)},
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
        f'[[workload]]\nkind = "http"\nurl = "{url}"\nclients = [1, 2]\nseconds = 0.8\n'
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
    shown = seatrial("show", "one", "--tables")
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
    assert "operations/s" in compared["overall"], "its rate is not that of block I/O"


def test_what_is_wrong_with_a_study_is_said_with_its_key(seatrial):
    assert "url is 'ftp://x'" in seatrial("study", study(seatrial.folder, "ftp://x"), code=2)


def test_its_command_is_listed_after_that_of_studies(seatrial):
    shown = seatrial("--help")
    assert re.search(r"^  study +.*\n(.*\n)*?  http +Timed GETs of one address\.$", shown, re.M)
    listed = re.findall(r"^  ([a-z]+) {2,}\S", shown.partition("Measure:")[2], re.M)
    assert listed.index("study") < listed.index("http") < listed.index("check")
    assert "Did you mean 'http'?" in seatrial("htp", code=2)


def test_its_command_measures_and_shows(seatrial, url):
    assert "seatrial http http://localhost:8080/ --clients 4" in seatrial("http", "--help")
    assert "Study http" in seatrial("http", url, "--plan")
    reported = json.loads(seatrial("http", url, "--clients", "2", "--seconds", "0.2", "--json"))
    assert [cell["key"] for cell in reported["cells"]] == ["http/get/2t"]
    assert reported["run"]["command"].startswith("seatrial http ")
    assert "--seconds" in seatrial("http", url, "--seconds", "0", code=2)


def test_a_command_of_the_program_is_not_replaced(installed):
    """A topic that brings a command `io` leaves the program's own as it is."""
    script = (
        "import seatrial_http\n"
        "from seatrial.cli.main import commands, find_command\n"
        "from seatrial.topic import Command\n"
        "foreign = Command('Of others.', 'others:command', after='nothing')\n"
        "seatrial_http.HttpTopic.commands = dict.fromkeys(['io', 'study', 'last'], foreign)\n"
        "found = commands()\n"
        "assert list(found)[-1] == 'last', list(found)\n"
        "for name in ('io', 'study'):\n"
        "    assert found[name] == find_command(name) != foreign\n"
        "assert find_command('last') == foreign\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": python_path(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_broken_topic_is_named_with_its_package(installed, tmp_path):
    (tmp_path / "seatrial_http.py").write_text("import no_such_module\n")
    done = subprocess.run(
        [Path(sys.executable).with_name("seatrial"), "--help"],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{python_path(installed)}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done
    assert "The topic 'http' cannot be loaded: ModuleNotFoundError" in done.stderr
    assert "pip uninstall seatrial-http" in done.stderr


def test_nothing_else_names_it():
    tracked = subprocess.run(
        ["git", "grep", "-l", "seatrial_http"],
        cwd=EXAMPLE,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()
    assert set(tracked) <= {"pyproject.toml", "seatrial_http.py", "seatrial_http_command.py"}
