"""Servers as a user names them: the password is taken out before anything is kept of the name."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final

import click

from seatrial.errors import UsageError
from seatrial.study.server_address import SCHEMES, holds_password

PASSWORD_VARIABLE: Final = "PGPASSWORD"  # noqa: S105 - its name, not its value

_BEGINNING: Final = re.compile("|".join(map(re.escape, SCHEMES)))
_PARAMETER: Final = re.compile(r"([?&](?:ssl)?password=)[^&#]*", re.IGNORECASE)
_HIDDEN: Final = "***"


def without_password(word: str) -> str:
    """Return a word of the command line with no password in it.

    Of a server's address that holds one, the user's name and what follows the last ``@`` are
    left; a password that is written wrongly is taken out just the same.
    """
    begins = _BEGINNING.search(word)
    if begins is None or not holds_password(word[begins.start() :]):
        return word
    head, address = word[: begins.end()], word[begins.end() :]
    before, at, after = address.rpartition("@")
    user = before.partition(":")[0]
    return head + _PARAMETER.sub(rf"\1{_HIDDEN}", user + at + after)


def servers_of(urls: Sequence[str]) -> list[str]:
    """Return addresses without a password; one that was there is in our environment from now on.

    So libpq finds it, in this process and in its children, and nobody else sees it.

    Raises:
        UsageError: when an address cannot be read, or two have different passwords.
    """
    from seatrial.postgres.connection import parse_url  # noqa: PLC0415 - not for --help

    addresses = []
    passwords = set()
    for url in urls:
        address, secret = parse_url(url)
        addresses.append(address.as_url())
        if secret is not None:
            passwords.add(secret.reveal())
    if len(passwords) > 1:
        raise UsageError(
            seen="Two addresses have different passwords",
            cause="One process hands one password on, in the variable PGPASSWORD",
            next_step="Leave them out of the addresses, and write both into ~/.pgpass",
        )
    for password in passwords:
        os.environ[PASSWORD_VARIABLE] = password
        click.echo(
            "The password of the address is kept out of results and reports, but the shell's "
            "history and `ps` show it: the variable PGPASSWORD or the file ~/.pgpass do not.",
            err=True,
        )
    return addresses
