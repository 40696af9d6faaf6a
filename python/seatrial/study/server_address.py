"""Detects server addresses in a study, and passwords in them."""

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
    """Return whether an address contains a password, even if it is malformed.

    Everything before the last ``@`` counts as user name and password: this includes passwords with
    an unescaped ``@``, ``/`` or ``?``.
    """
    before, at, _ = address.partition("://")[2].rpartition("@")
    return bool(at and ":" in before) or bool(_SECRET_PARAMETER.search(address))


def with_addresses(study: Study) -> Study:
    """Return the study with all server targets in one form: ``kind`` and ``url``.

    A study may specify a server as the ``path`` of a target, as the command line does, or only by
    its ``url``.
    """
    return msgspec.structs.replace(study, targets=[_reported(target) for target in study.targets])


def _reported(target: Target) -> Target:
    is_path = is_server_address(target.path)
    if target.kind not in ("auto", "database") or not (is_path or target.url):
        return target
    url = target.path if is_path else target.url
    return msgspec.structs.replace(target, kind="database", url=url, path="")
