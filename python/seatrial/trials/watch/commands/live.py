"""The live page of a watch: its server on loopback, in a thread of its own.

The page is for the browser that got the printed token; metrics need the second token. Events carry
numbers, so a browser that lost its connection gets the events that it missed, as far as the history
of the watch goes back.
"""

from __future__ import annotations

import asyncio
import hmac
import importlib.util
import json
import secrets
import threading
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from seatrial import _core
from seatrial.cli.serve_app import (
    HEADERS,
    LOOPBACK,
    QUIET,
    AccessControl,
    Session,
    body_of,
    listening,
)
from seatrial.errors import SeatrialError, UsageError
from seatrial.trials.watch.analysis.activity import Interval
from seatrial.trials.watch.analysis.compact import ROWS_PER_DOUBLING, compact
from seatrial.trials.watch.analysis.events import Mark, Stall
from seatrial.trials.watch.analysis.history import (
    HISTORY_BYTES_MAX,
    HISTORY_S,
    Event,
    History,
)
from seatrial.trials.watch.measure.marks import set_mark
from seatrial.trials.watch.report import native
from seatrial.trials.watch.report.metrics import (
    MEDIA_TYPE,
    Totals,
    metrics_protobuf,
    metrics_text,
    wants_protobuf,
)
from seatrial.trials.watch.report.page import Startup, live_page, saved_page

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from seatrial.trials.watch.analysis.headroom import Headroom
    from seatrial.trials.watch.measure.watching import Watcher

READERS_MAX: Final = 8
"""Pages that are fed at once."""
_CHUNK_BYTES: Final = 1 << 18
_POLL_S: Final = 0.1
_ALIVE_S: Final = 10.0
_COOKIE_S: Final = 86_400
_STOP_S: Final = 5.0
_TOKEN_BYTES: Final = 24


def require_packages(option: str = "--port") -> None:
    """Raise if a server cannot be started, which an option needs.

    Raises:
        UsageError: if starlette or uvicorn is not installed.
    """
    missing = [each for each in ("starlette", "uvicorn") if importlib.util.find_spec(each) is None]
    if missing:
        raise UsageError(
            seen=f"The live page needs {' and '.join(missing)}",
            cause="They are an optional extra of Seatrial, which is not installed",
            next_step=f"Install them with `pip install 'seatrial[serve]'`, or leave {option} out",
        )


class Feed:
    """The data of the page and of metrics; filled by the watch, read by its server.

    Attributes:
        startup: The watch.
        history: Events that the page may request again.
        totals: The sums since the start.
        total: All intervals as one; None before the first.
    """

    def __init__(self, startup: Startup) -> None:
        self.startup = startup
        self.history = History()
        self.totals = Totals()
        self.total: Interval | None = None
        self._processor_s = time.process_time()
        self._lock = threading.Lock()

    def interval(
        self,
        interval: Interval,
        total: Interval,
        in_flight: Mapping[str, float],
        headroom: Sequence[Headroom] = (),
    ) -> None:
        """Add an interval that ends now."""
        used_s = time.process_time()
        cost = (used_s - self._processor_s) / max(interval.seconds, 1e-3)
        self._processor_s = used_s
        data = msgspec.json.encode(compact(interval, in_flight, cost, headroom))
        with self._lock:
            self.totals.add(interval, in_flight)
            self.total = total
        self.history.add("interval", data)

    def stall(self, stall: Stall) -> None:
        """Add a stall, or its new state."""
        with self._lock:
            self.totals.add_stall(stall)
        self.history.add("stall", msgspec.json.encode(stall))

    def progress(self, event: bytes) -> None:
        """Add an event of the run that is shown, in JSON."""
        self.history.add("run", event)

    def mark(self, mark: Mark) -> None:
        """Add a marker."""
        self.history.add("mark", msgspec.json.encode(mark))

    def saved(self, worksheet: Mapping[str, Any]) -> str:
        """Return the whole history as a page of its own."""
        return saved_page(self.startup, self.history.after(0), self.total, worksheet)

    def metrics(self, accept: str) -> tuple[str | bytes, str]:
        """Return the sums in the format that a scraper prefers, and its media type.

        Args:
            accept: The scraper's header ``Accept``.
        """
        with self._lock:
            known = self.totals, self.startup.level, _core.__version__
            if wants_protobuf(accept):
                return metrics_protobuf(*known), native.MEDIA_TYPE
            return metrics_text(*known), MEDIA_TYPE


class EndMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The end of the watch or run, as a page shows it.

    Attributes:
        sentence: The result.
        has_report: Whether its report is served.
    """

    sentence: str
    has_report: bool = False


class LivePage:
    """The server; it answers until it is stopped.

    Attributes:
        address: Address of the page, with the token that works once.
        metrics_address: Metrics address of the metrics, with their token.
        requested_s: When a browser with access last requested something, by the monotonic clock;
            None before.
    """

    def __init__(self, feed: Feed, port: int, command: str = "seatrial watch") -> None:
        """Start it; ``port`` 0 takes a free one, ``command`` is the one that prints the address.

        Raises:
            UsageError: when the port cannot be used.
        """
        import uvicorn  # noqa: PLC0415 - an optional extra
        from starlette.applications import Starlette  # noqa: PLC0415 - likewise

        self._feed = feed
        self._socket = listening(port)
        port = int(self._socket.getsockname()[1])
        session = Session()
        self._metrics_token = secrets.token_urlsafe(_TOKEN_BYTES)
        self.address = f"http://{LOOPBACK}:{port}/?token={session.token}"
        self.metrics_address = f"http://{LOOPBACK}:{port}/metrics?token={self._metrics_token}"
        self._gate = AccessControl(
            session,
            port,
            command=command,
            cookie="seatrial-watch",
            lasts_s=_COOKIE_S,
        )
        self.requested_s: float | None = None
        self._ending: EndMessage | None = None
        self._run_report = ""
        self._readers = 0
        app = Starlette(routes=self._routes())
        self._server = uvicorn.Server(uvicorn.Config(app, timeout_graceful_shutdown=1, **QUIET))
        self._thread = threading.Thread(target=self._run, name="live page", daemon=True)
        self._thread.start()

    def end(self, sentence: str, report: str = "") -> None:
        """Notify pages of the end, and serve the report, an HTML page."""
        self._run_report = report
        self._ending = EndMessage(sentence=sentence, has_report=bool(report))

    def stop(self) -> None:
        """End it; open pages are notified first."""
        if self._ending is None:
            self.end("The watch has ended.")
        time.sleep(2 * _POLL_S)  # the last events are sent
        self._server.should_exit = True
        self._thread.join(_STOP_S)
        self._socket.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def _routes(self) -> list[Route]:
        from starlette.routing import Route  # noqa: PLC0415 - an optional extra

        return [
            Route("/", self._page),
            Route("/events", self._events),
            Route("/metrics", self._metrics),
            Route("/mark", self._mark, methods=["POST"]),
            Route("/report", self._report, methods=["POST"]),
            Route("/run", self._run_page),
        ]

    def _refused(self, request: Request) -> Response | None:
        """Return why a request is not answered; None if it is, which is noted."""
        refused = self._gate.refused(request)
        if refused is None:
            self.requested_s = time.monotonic()
        return refused

    def _run_page(self, request: Request) -> Response:
        from starlette.responses import HTMLResponse, PlainTextResponse  # noqa: PLC0415

        if (refused := self._refused(request)) is not None:
            return refused
        if not self._run_report:
            return PlainTextResponse("There is no report yet.", 404, HEADERS)
        return HTMLResponse(self._run_report, headers=HEADERS)

    def _page(self, request: Request) -> Response:
        from starlette.responses import HTMLResponse  # noqa: PLC0415 - an optional extra

        if (answer := self._gate.entered(request) or self._refused(request)) is not None:
            return answer
        return HTMLResponse(live_page(self._feed.startup), headers=HEADERS)

    async def _events(self, request: Request) -> Response:
        from starlette.responses import PlainTextResponse, StreamingResponse  # noqa: PLC0415

        if (refused := self._refused(request)) is not None:
            return refused
        if self._readers >= READERS_MAX:
            text = f"{READERS_MAX} pages are open already."
            return PlainTextResponse(text, 503, HEADERS)
        stream = self._stream(request.headers.get("last-event-id", ""))
        return StreamingResponse(stream, headers=HEADERS, media_type="text/event-stream")

    async def _stream(self, last_id: str) -> AsyncIterator[bytes]:
        history = self._feed.history
        session, _, number = last_id.partition(":")
        is_resumed = session == history.session and number.isdigit()
        last = int(number) if is_resumed else 0
        self._readers += 1
        try:
            startup = msgspec.to_builtins(self._feed.startup) | {
                "resumed": is_resumed,
                "has_ended": self._ending is not None,
            }
            yield _message("startup", json.dumps(startup).encode())
            last_sent_s = time.monotonic()
            while True:
                ending = self._ending
                events = history.after(last)
                if last and events and (skipped := events[0].number - last - 1):
                    yield _message("skipped", b'{"events":%d}' % skipped)
                for chunk in _chunks(events, history.session):
                    yield chunk
                now_s = time.monotonic()
                if events:
                    last, last_sent_s = events[-1].number, now_s
                elif now_s - last_sent_s >= _ALIVE_S:
                    last_sent_s = now_s
                    yield b": alive\n\n"
                if ending is not None:
                    yield _message("ended", msgspec.json.encode(ending))
                    return
                await asyncio.sleep(_POLL_S)
        finally:
            self._readers -= 1

    def _metrics(self, request: Request) -> Response:
        from starlette.responses import Response  # noqa: PLC0415 - an optional extra

        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        token = bearer if scheme.lower() == "bearer" else request.query_params.get("token", "")
        if not hmac.compare_digest(token.encode(), self._metrics_token.encode()):
            refused = self._refused(request)
            if refused is not None:
                return refused
        content, media_type = self._feed.metrics(request.headers.get("accept", ""))
        return Response(content, headers=HEADERS, media_type=media_type)

    async def _mark(self, request: Request) -> Response:
        from starlette.concurrency import run_in_threadpool  # noqa: PLC0415
        from starlette.responses import PlainTextResponse  # noqa: PLC0415

        if (refused := self._refused(request)) is not None:
            return refused
        body = await body_of(request)
        try:
            await run_in_threadpool(set_mark, (body or b"").decode("utf-8", "replace"))
        except SeatrialError as error:
            return PlainTextResponse(str(error), 409, HEADERS)
        return PlainTextResponse("Marked.", headers=HEADERS)

    async def _report(self, request: Request) -> Response:
        from starlette.concurrency import run_in_threadpool  # noqa: PLC0415
        from starlette.responses import HTMLResponse, PlainTextResponse  # noqa: PLC0415

        if (refused := self._refused(request)) is not None:
            return refused
        try:
            worksheet = json.loads(await body_of(request) or b"")
        except ValueError:
            return PlainTextResponse("The worksheet is not JSON.", 400, HEADERS)
        if not isinstance(worksheet, dict):
            return PlainTextResponse("The worksheet is not a JSON object.", 400, HEADERS)
        return HTMLResponse(await run_in_threadpool(self._feed.saved, worksheet), headers=HEADERS)


def served(
    watcher: Watcher,
    name: str,
    every_s: float,
    port: int,
    *,
    has_server: bool = False,
    run: str = "",
    without_line: str = "",
    command: str = "seatrial watch",
) -> tuple[Feed, LivePage]:
    """Start the live page; return what feeds it, and the page.

    Args:
        watcher: The source of intervals.
        name: The disks or the database, as in a heading.
        every_s: Length of an interval.
        port: The TCP port; 0 takes a free one.
        has_server: Whether a database server's own statistics are read.
        run: The run that is shown, as in a heading; empty for a watch alone.
        without_line: Which disks have no load line; empty where all have one.
        command: The command that prints the address.

    Raises:
        UsageError: when the port cannot be used.
    """
    level = watcher.level
    startup = Startup(
        watched=name,
        run=run,
        without_line=without_line,
        has_disks=bool(watcher.disks()),
        level=level.number,
        sees=level.sees,
        lacks=level.lacks,
        cost=level.cost,
        reason=level.reason,
        started_at=time.time(),
        every_s=every_s,
        has_server=has_server,
        has_group=watcher.group() is not None,
        history_s=HISTORY_S,
        history_bytes_max=HISTORY_BYTES_MAX,
        rows_per_doubling=ROWS_PER_DOUBLING,
        version=_core.__version__,
    )
    feed = Feed(startup)
    return feed, LivePage(feed, port, command)


def _chunks(events: list[Event], session: str) -> list[bytes]:
    """Return the messages of events, several in a chunk."""
    chunks: list[list[bytes]] = []
    free_bytes = 0
    for each in events:
        message = _message(each.kind, each.data, f"{session}:{each.number}")
        if len(message) > free_bytes:
            chunks.append([])
            free_bytes = _CHUNK_BYTES
        chunks[-1].append(message)
        free_bytes -= len(message)
    return [b"".join(each) for each in chunks]


def _message(kind: str, data: bytes, number: str = "") -> bytes:
    """Return one server-sent event (HTML Living Standard, section 9.2); JSON has no line breaks."""
    head = f"id: {number}\n" if number else ""
    return f"{head}event: {kind}\ndata: ".encode() + data + b"\n\n"
