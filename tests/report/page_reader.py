"""Reads a rendered page as a browser with scripts off would: elements, texts, tables."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

VOID = {"br", "col", "hr", "input", "meta"}


@dataclass
class Node:
    """One element, with its children in order; text stands among them as ``str``."""

    name: str
    attributes: dict[str, str | None]
    children: list[Node | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text inside, with white space as it is."""
        return "".join(
            child if isinstance(child, str) else child.text
            for child in self.children
            if isinstance(child, str) or child.name not in ("script", "style")
        )

    def all(self, name: str = "", **attributes: str) -> list[Node]:
        """All elements inside of this name and with these attributes, in document order."""
        found = []
        for child in self.children:
            if isinstance(child, str):
                continue
            wanted = {key.rstrip("_").replace("_", "-"): v for key, v in attributes.items()}
            if name in ("", child.name) and wanted.items() <= child.attributes.items():
                found.append(child)
            found += child.all(name, **attributes)
        return found

    def one(self, name: str = "", **attributes: str) -> Node:
        """The only such element."""
        found = self.all(name, **attributes)
        assert len(found) == 1, f"{len(found)} of {name} {attributes}"
        return found[0]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("", {})
        self.open = [self.root]
        self.comments: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, dict(attrs))
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].name == tag, f"</{tag}> closes <{self.open[-1].name}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def read(page: str) -> Node:
    """Return the document; fails when an element is not closed where it should be."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == [reader.root], "an element is left open"
    assert reader.comments == [], "nothing of ours is a comment"
    return reader.root


def embedded(document: Node) -> Any:
    """Return the data that the page's script reads."""
    return json.loads(unpacked(document.one("script", id="report-data")))


def unpacked(element: Node) -> str:
    """The text of an element that holds it as gzip in base64."""
    return gzip.decompress(base64.b64decode(str(element.children[0]))).decode()
