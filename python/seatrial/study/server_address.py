"""Addresses of servers in a study: what is one, and whether it holds a password."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from seatrial.study.schema import Study, Target

SCHEMES: Final = ("postgresql://", "postgres://")
ADDRESS_EXPECTED: Final = "postgresql://USER@HOST:PORT/DATABASE"

_SECRET_PARAMETER: Final = re.compile(r"[?&](?:ssl)?password=", re.IGNORECASE)


def is_server_address(text: str) -> bool:
    """Return whether a text is the address of a PostgreSQL server."""
    return text.startswith(SCHEMES)


def holds_password(address: str) -> bool:
    """Return whether an address holds a password, be it written rightly or wrongly.

    Everything before the last ``@`` is taken for a user's name and password: a password with a
    bare ``@``, ``/`` or ``?`` in it is still one.
    """
    before, at, _ = address.partition("://")[2].rpartition("@")
    return bool(at and ":" in before) or bool(_SECRET_PARAMETER.search(address))


def with_addresses(study: Study) -> Study:
    """Return the study with each target that is a server told as one: by kind and ``url``.

    A server may be written as the ``path`` of a target, as the command line does it, or by its
    ``url`` alone.
    """
    return msgspec.structs.replace(study, targets=[_reported(target) for target in study.targets])


def _reported(target: Target) -> Target:
    is_path = is_server_address(target.path)
    if target.kind not in ("auto", "database") or not (is_path or target.url):
        return target
    url = target.path if is_path else target.url
    return msgspec.structs.replace(target, kind="database", url=url, path="")
