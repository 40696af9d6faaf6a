"""The server of ``seatrial serve``: access control, pages, changes of runs.

Every request must name this server in its ``Host`` header (against DNS rebinding) and carry the
session's cookie, which is set once, for the first request with the printed token. Changes are made
by ``POST`` with a token of the form (against cross-site requests).
"""

from __future__ import annotations

import hmac
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, quote, urlencode

import click

from seatrial.cli.index_files import comparison_of, page_of
from seatrial.cli.options import LABEL_CHARACTERS_MAX, NOTE_CHARACTERS_MAX, checked_text
from seatrial.cli.outcome import earlier_in
from seatrial.errors import SeatrialError, UsageError
from seatrial.report.index_page import (
    Editing,
    IndexEntry,
    Links,
    entry_of,
    message_page,
    render_index,
)
from seatrial.results.model import Run
from seatrial.results.store import ResultsFile
from seatrial.stats.timeline import SLICES_MIN
from seatrial.stats.wording import format_plural

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

LOOPBACK: Final = "127.0.0.1"
COOKIE: Final = "seatrial"
BODY_BYTES_MAX: Final = 1 << 16
_TOKEN_BYTES: Final = 24
HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
QUIET: Final[dict[str, Any]] = {
    "lifespan": "off",
    "access_log": False,
    "log_level": "error",
    "server_header": False,
}
"""Settings of uvicorn for a server of one page for one user."""
LINKS: Final = Links(
    page=lambda run_id: f"/runs/{quote(run_id, safe='')}",
    comparison=lambda a, b: "/compare?" + urlencode([("run", a), ("run", b)]),
)


class Session:
    """The secrets of one server, and the browser that it belongs to.

    Attributes:
        token: In the printed address; it works once.
        cookie: Sent by the browser from then on.
        csrf: Sent with every form.
    """

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)
        self.cookie = secrets.token_urlsafe(_TOKEN_BYTES)
        self.csrf = secrets.token_urlsafe(_TOKEN_BYTES)
        self._is_used = False
        self._lock = threading.Lock()

    def take(self, token: str) -> bool:
        """Return whether a token is the printed one and unused; it is used up by that."""
        with self._lock:
            fits = not self._is_used and hmac.compare_digest(token.encode(), self.token.encode())
            self._is_used = self._is_used or fits
            return fits

    def knows(self, cookie: str) -> bool:
        """Return whether a cookie is that of the session."""
        return hmac.compare_digest(cookie.encode(), self.cookie.encode())

    def is_own_form(self, token: str) -> bool:
        """Return whether a form is of a page of this session."""
        return hmac.compare_digest(token.encode(), self.csrf.encode())


class Site:
    """The pages of a results file, computed when requested and cached until it changes.

    Attributes:
        results: The results file.
        profile: Name or file of the profile that grades the runs; empty for none.
    """

    def __init__(self, results: Path, profile: str = "") -> None:
        self.results = results
        self.profile = profile
        self._entries: dict[str, tuple[Run, IndexEntry]] = {}
        self._lock = threading.Lock()

    def index(self, editing: Editing) -> str:
        """Return the index as it is now."""
        with self._lock, ResultsFile.open(self.results, read_only=True) as store:
            entries = [self._entry(store, run) for run in store.runs()]
        return render_index(entries, self.results.name, LINKS, editing)

    def _entry(self, store: ResultsFile, run: Run) -> IndexEntry:
        known = self._entries.get(run.id)
        if known is None or known[0] != run or run.status == "running":
            known = (run, entry_of(run, store.samples(run.id), self.profile))
            self._entries[run.id] = known
        return known[1]

    def page(self, run_id: str) -> str:
        """Return the report of a run."""
        with ResultsFile.open(self.results, read_only=True) as store:
            run = store.run(run_id)
            samples_of = partial(store.samples, slices_min=SLICES_MIN)
            earlier = partial(earlier_in, store.runs(), run, samples_of)
            return page_of(run, store.samples(run.id), self.profile, earlier)

    def comparison(self, run_ids: list[str]) -> str:
        """Return the comparison of two runs, the older one being the reference.

        Raises:
            UsageError: when there are not two of them, or they have no test in common.
        """
        with ResultsFile.open(self.results, read_only=True) as store:
            runs = {(run := store.run(each)).id: run for each in run_ids}
            if len(runs) != 2:
                raise UsageError(
                    seen=f"{format_plural(len(runs), 'run')} selected, not 2",
                    cause="A comparison has two sides",
                    next_step="Go back and select two runs",
                )
            earlier, later = sorted(runs.values(), key=lambda each: each.started_at)
            return comparison_of(store, earlier, later)

    def change(self, action: str, run_id: str, form: dict[str, str]) -> str:
        """Make the change that a form requests; return a sentence that confirms it.

        Raises:
            SeatrialError: when it cannot be done.
        """
        with ResultsFile.open(self.results) as store:
            run = store.run(run_id)
            if action == "rename":
                label = checked_text(form.get("label", ""), "label", LABEL_CHARACTERS_MAX)
                store.edit_run(run.id, label=label)
                return f"Renamed {run.id} to {label!r}." if label else f"{run.id} has no label now."
            if action == "annotate":
                note = form.get("note", "")
                note = checked_text(note, "note", NOTE_CHARACTERS_MAX, lines=True)
                store.edit_run(run.id, note=note)
                return f"Stored the note about {run.id}."
            if form.get("confirmed") != "yes":
                raise UsageError(
                    seen=f"The run {run.id} was not deleted",
                    cause="The box that confirms it was not ticked",
                    next_step="Tick it and retry",
                )
            store.delete_runs([run.id])
            return f"Deleted {run.id}."


def _answer(text: str, status: int = 200) -> Response:
    from starlette.responses import HTMLResponse  # noqa: PLC0415 - an optional extra

    return HTMLResponse(text, status, HEADERS)


def _refuse(status: int, title: str, text: str, link: str = "All runs") -> Response:
    return _answer(message_page(title, text, link=link), status)


def _shown(make: Callable[[], str]) -> Response:
    """Return a page, or the error that occurred instead."""
    try:
        return _answer(make())
    except SeatrialError as error:
        return _refuse(404 if isinstance(error, UsageError) else 500, "Not shown", str(error))


class AccessControl:
    """Decides which requests are answered.

    Attributes:
        session: The secrets.
        hosts: Accepted values of the ``Host`` header.
        command: The command that printed the address.
        cookie: Name of the cookie, with the port: browsers do not keep the ports of a host apart.
        lasts_s: How long a browser keeps the cookie; None until it is closed.
    """

    def __init__(
        self,
        session: Session,
        port: int,
        *,
        command: str = "seatrial serve",
        cookie: str = COOKIE,
        lasts_s: int | None = None,
    ) -> None:
        self.session = session
        self.hosts = {f"{LOOPBACK}:{port}", f"localhost:{port}"}
        self.command = command
        self.cookie = f"{cookie}-{port}"
        self.lasts_s = lasts_s

    def refused(self, request: Request) -> Response | None:
        """Return the refusal of a request; None if it is answered."""
        host = request.headers.get("host", "")
        if host not in self.hosts:
            return _refuse(421, "Wrong host", "This server answers to 127.0.0.1 only.", "")
        if request.method == "POST" and request.headers.get("origin") != f"http://{host}":
            return _refuse(403, "Refused", "The request is not from a page of this server.", "")
        if not self.session.knows(request.cookies.get(self.cookie, "")):
            text = f"Open the address that `{self.command}` printed; its token works once."
            return _refuse(403, "No access", text, "")
        return None

    def entered(self, request: Request) -> Response | None:
        """Return the answer to a request with the printed token; None to any other."""
        token = request.query_params.get("token", "")
        if request.headers.get("host", "") not in self.hosts or not self.session.take(token):
            return None
        # No redirection: a strict cookie is not sent with one that comes from another site.
        response = _answer(
            message_page("Opening", "The page is being made.", refresh="/", link="Open it")
        )
        response.set_cookie(
            self.cookie,
            self.session.cookie,
            max_age=self.lasts_s,
            httponly=True,
            samesite="strict",
            path="/",
        )
        return response


def application(site: Site, session: Session, port: int) -> Starlette:
    """Return the ASGI application.

    Args:
        site: The pages.
        session: The secrets of the server.
        port: The port on which the server listens.
    """
    from starlette.applications import Starlette  # noqa: PLC0415 - an optional extra
    from starlette.concurrency import run_in_threadpool  # noqa: PLC0415
    from starlette.responses import RedirectResponse  # noqa: PLC0415
    from starlette.routing import Route  # noqa: PLC0415

    gate = AccessControl(session, port)
    notices: list[str] = []

    def index(request: Request) -> Response:
        if (answer := gate.entered(request) or gate.refused(request)) is not None:
            return answer
        editing = Editing(token=session.csrf, notice=notices.pop() if notices else "")
        return _shown(lambda: site.index(editing))

    def page(request: Request) -> Response:
        return gate.refused(request) or _shown(lambda: site.page(request.path_params["run"]))

    def comparison(request: Request) -> Response:
        chosen = request.query_params.getlist("run")
        return gate.refused(request) or _shown(lambda: site.comparison(chosen))

    async def change(request: Request) -> Response:
        if (refused := gate.refused(request)) is not None:
            return refused
        form = await _form(request)
        if form is None or not session.is_own_form(form.get("csrf", "")):
            return _refuse(403, "Refused", "The form is not from this page. Reload it and retry.")
        run, action = request.path_params["run"], request.url.path.rpartition("/")[2]
        try:
            notices[:] = [await run_in_threadpool(site.change, action, run, form)]
        except SeatrialError as error:
            return _refuse(409, "Not changed", str(error))
        return RedirectResponse("/", 303, HEADERS)

    routes = [Route("/", index), Route("/runs/{run}", page), Route("/compare", comparison)]
    routes += [
        Route(f"/runs/{{run}}/{action}", change, methods=["POST"], name=action)
        for action in ("rename", "annotate", "delete")
    ]
    return Starlette(routes=routes)


async def _form(request: Request) -> dict[str, str] | None:
    """Return the fields of a form, by name; None if it is too large or not a form."""
    body = await body_of(request)
    if body is None:
        return None
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        return None
    return {name: values[-1] for name, values in fields.items()}


async def body_of(request: Request) -> bytes | None:
    """Return the body of a request; None where it is too large."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > BODY_BYTES_MAX:
            return None
    return body


def listening(port: int) -> socket.socket:
    """Return a socket that listens on loopback.

    Raises:
        UsageError: when the port is taken or reserved.
    """
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((LOOPBACK, port))
        found.listen()
    except OSError as error:
        found.close()
        raise UsageError(
            seen=f"Port {port} of {LOOPBACK} cannot be used: {error.strerror}",
            cause="Another program listens on it, or it is reserved for root",
            next_step="Choose another one with --port, or leave the option out",
        ) from None
    return found


def serve(results: Path, port: int, *, profile: str = "") -> None:
    """Serve a results file until it is interrupted.

    Args:
        results: The results file.
        port: The TCP port; 0 for a free one.
        profile: Name or file of the profile that grades the runs; empty for none.

    Raises:
        ResultsFileError: when the file cannot be read.
        UsageError: when the port cannot be used.
    """
    import uvicorn  # noqa: PLC0415 - an optional extra

    class Server(uvicorn.Server):
        """Shuts down at the first signal, and does not raise it again."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            before = {number: signal.signal(number, self.handle_exit) for number in numbers}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

    with ResultsFile.open(results, read_only=True):
        pass
    session = Session()
    with listening(port) as listener:
        taken = int(listener.getsockname()[1])
        app = application(Site(results, profile), session, taken)
        config = uvicorn.Config(app, timeout_graceful_shutdown=2, **QUIET)
        click.echo(
            f"Serving {click.format_filename(results)} on this machine only; Ctrl-C ends it."
        )
        click.echo(f"http://{LOOPBACK}:{taken}/?token={session.token}")
        Server(config).run(sockets=[listener])
