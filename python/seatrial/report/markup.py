"""HTML from templates that escape every text.

Templates of a topic are next to the module that fills them. Line breaks and indentation of a
template are dropped next to a tag, and become a space between words.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup, escape

from seatrial.stats.wording import unbroken

if TYPE_CHECKING:
    from jinja2 import Environment, Template

PRODUCT: Final = Path(__file__).parents[1]

_IN_TAG = re.compile(r"\{[{%].*?[%}]\}", re.DOTALL)
_BREAK = re.compile(r"(?<=[>}])\s*\n\s*|\s*\n\s*(?=[<{])")


def coded(text: str) -> Markup:
    """Return a sentence without breaks between numbers and units; backquoted text becomes code."""
    parts = unbroken(text).split("`")
    if len(parts) % 2 == 0:
        return Markup(escape(unbroken(text)))  # noqa: S704 - escaped
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part)
        for index, part in enumerate(parts)
    )


def fill(template: str, **values: object) -> Markup:
    """Return a template filled with values; text among them is escaped.

    Args:
        template: Its path inside the product, such as ``report/templates/machine.html``.
        values: By the names that the template has for them.
    """
    return Markup(template_at(template).render(values))  # noqa: S704 - escaped


def template_at(path: str) -> Template:
    """Return a compiled template, cached.

    Args:
        path: Its path inside the product, such as ``report/templates/machine.html``.
    """
    return _environment().get_template(path)


def macro(template: str, name: str, *values: object) -> Markup:
    """Return the result of a template's macro for values; text among them is escaped."""
    made: Markup = getattr(_module(template), name)(*values)
    return made


def joined(source: str) -> str:
    """Return a template without the line breaks of its source."""
    source = _IN_TAG.sub(lambda tag: " ".join(tag[0].split("\n")), source)
    return re.sub(r"\s*\n\s*", " ", _BREAK.sub("", source)).strip()


@functools.cache
def _module(template: str) -> Any:  # noqa: ANN401 - its macros are its attributes
    return template_at(template).module


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - a page's

    from seatrial.report.sections import blank_names, is_blank  # noqa: PLC0415
    from seatrial.stats.facts import fact_name, fact_text, is_short  # noqa: PLC0415

    class Loader(FileSystemLoader):
        def get_source(self, environment: Environment, template: str) -> Any:  # noqa: ANN401
            source, path, is_current = super().get_source(environment, template)
            return joined(source), path, is_current

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, loader=Loader(PRODUCT), auto_reload=False
    )
    environment.filters |= {each.__name__: each for each in (coded, unbroken)}
    environment.globals |= {
        each.__name__: each for each in (blank_names, is_blank, fact_name, fact_text, is_short)
    }
    return environment
