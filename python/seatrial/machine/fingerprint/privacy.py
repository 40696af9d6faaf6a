"""What must not appear in a results file: the host's name, serial numbers, credentials."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from seatrial.machine.fingerprint.tree import SystemTree

_HASH_DIGITS: Final = 12
_SHORT_NAME_LENGTH: Final = 3

_INFORMATIVE_OPTIONS: Final = frozenset(
    {
        "addr",
        "clientaddr",
        "credentials",
        "domain",
        "fsid",
        "group_id",
        "lowerdir",
        "mon_addr",
        "mountaddr",
        "name",
        "pass",
        "password",
        "password2",
        "secret",
        "user",
        "user_id",
        "username",
        "workdir",
    }
)
"""Mount options that name a server, a person or a container."""


def short_hash(secret: str) -> str:
    """Return 12 hexadecimal digits of the text's SHA-256: an identifier that hides the text."""
    return hashlib.sha256(secret.encode()).hexdigest()[:_HASH_DIGITS]


def without_host(text: str, tree: SystemTree) -> str:
    """Return the text with this machine's name replaced by ``(host)``.

    Installers name LVM volume groups and md arrays after the machine (``web1-vg``, ``web1:0``);
    device mapper doubles the hyphens of such a name. Names of one to three letters are not
    replaced: they occur in other words.
    """
    host = (tree.text("/proc/sys/kernel/hostname") or "").partition(".")[0]
    if len(host) <= _SHORT_NAME_LENGTH:
        return text
    forms = "|".join(re.escape(form) for form in (host.replace("-", "--"), host))
    return re.sub(rf"(?<![A-Za-z0-9])(?:{forms})(?![A-Za-z0-9])", "(host)", text)


def without_server(source: str, kind: str, tree: SystemTree) -> str:
    """Return the source of a network mount without its server: ``host:/x``.

    It is replaced by ``(server 0123456789ab)``: a hash with this machine's id, so that the same
    server has the same mark in all runs of this machine, and nobody can find it by trying names.
    """
    salt = tree.text("/etc/machine-id") or ""

    def mark(server: str) -> str:
        return f"(server {short_hash(f'{salt}/{server}')})"

    if source.startswith("//"):
        server, _, share = source[2:].partition("/")
        return f"//{mark(server)}/{share}"
    # A path or pool name has no colon before its first slash; a server name has.
    if kind.startswith(("nfs", "ceph", "9p", "glusterfs", "lustre", "fuse")):
        return re.sub(r"^([^/]+):", lambda found: f"{mark(found[1])}:", source)
    return source


def without_revealing_options(options: str) -> list[str]:
    """Return mount options as a list, without those that name a server, person or container."""
    kept = [option for option in options.split(",") if option]
    return [option for option in kept if option.partition("=")[0] not in _INFORMATIVE_OPTIONS]
