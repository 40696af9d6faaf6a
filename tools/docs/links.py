"""Links of the documents to other parts of the tree, for the site: it holds the documents only.

A hook of mkdocs (mkdocs.yml). On a forge, ``../bench/RESULTS.md`` leads to the file; in the site it
is written as its path, without a link.
"""

from __future__ import annotations

import re
from typing import Final

OUTSIDE: Final = re.compile(r"\[(?P<text>[^\]]+)\]\(\.\./(?P<path>[^)#\s]+)(?:#[^)]*)?\)")


def on_page_markdown(markdown: str, **_context: object) -> str:
    """Replace links that leave the folder of the documents by their text and path."""
    return OUTSIDE.sub(lambda link: _without_link(link["text"], link["path"]), markdown)


def _without_link(text: str, path: str) -> str:
    plain = text.strip("`")
    return f"`{path}`" if plain == path or path.endswith(plain) else f"{text} (`{path}`)"
