"""A browser's part in plain HTTP."""

from __future__ import annotations

import http.client
import json
from typing import Any


class Client:
    """A browser's part."""

    def __init__(self, port: int, token: str, metrics_token: str) -> None:
        self.port, self.token, self.metrics_token = port, token, metrics_token
        self.cookie = ""

    def open(self, path: str, body: str | None = None, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        sent = {"Cookie": self.cookie} if self.cookie else {}
        if body is not None:
            sent["Origin"] = f"http://127.0.0.1:{self.port}"
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("GET" if body is None else "POST", path, body, sent)
        return connection.getresponse()

    def ask(self, path: str, body: str | None = None, **headers: str) -> tuple[int, str]:
        answer = self.open(path, body, **headers)
        return answer.status, answer.read().decode()

    def events(self, until: int, last_id: str = "", sort: str = "") -> list[tuple[str, str, Any]]:
        """Id, sort and data of the events of one connection, until there are so many of a sort."""
        headers = {"Last_Event_ID": last_id} if last_id else {}
        answer = self.open("/events", **headers)
        assert answer.status == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        found = []
        fields: dict[str, str] = {}
        while sum(sort in ("", each[1]) for each in found) < until:
            line = answer.readline().decode()
            assert line, "the stream has ended"
            if line == "\n":
                if "data" in fields:
                    data = json.loads(fields["data"])
                    found.append((fields.get("id", ""), fields["event"], data))
                fields = {}
            elif not line.startswith(":"):
                name, _, value = line.rstrip("\n").partition(": ")
                fields[name] = value
        answer.close()
        return found

    def enter(self) -> None:
        """Use the token, and keep the cookie."""
        entered = self.open(f"/?token={self.token}")
        assert entered.status == 200
        self.cookie = entered.headers["set-cookie"].partition(";")[0]
