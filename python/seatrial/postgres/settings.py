"""The settings of our server: checked, quoted, and written to a separate file.

Source: PostgreSQL's documentation, "Setting Parameters", section "Parameter Interaction via the
Configuration File", and src/backend/utils/misc/guc-file.l for the quoting.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from seatrial.errors import UsageError

SETTINGS_FILE: Final = "seatrial.conf"
INCLUDE: Final = (
    f"\n# The settings of the trial; they come last and win.\ninclude '{SETTINGS_FILE}'\n"
)

OURS_TO_SET: Final = frozenset(
    {
        *("cluster_name", "config_file", "data_directory", "external_pid_file", "hba_file"),
        *("ident_file", "lc_messages", "listen_addresses", "log_destination", "logging_collector"),
        *("port", "unix_socket_directories", "unix_socket_group", "unix_socket_permissions"),
    }
)
"""Settings reserved for the trial: changing them would make the server unreachable or unsafe.
"""

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", re.ASCII)
_PRELOADS: Final = (
    "shared_preload_libraries",
    "session_preload_libraries",
    "local_preload_libraries",
)


def base_settings(socket_folder: Path, run_id: str, port: int) -> dict[str, str]:
    """Return the settings of every server of ours: a private socket, no TCP, a plain log."""
    return {
        "cluster_name": f"seatrial_{run_id}"[:63],
        "lc_messages": "C",
        "listen_addresses": "",
        "log_destination": "stderr",
        "logging_collector": "off",
        "port": str(port),
        "unix_socket_directories": str(socket_folder),
    }


def check_settings(settings: Mapping[str, str]) -> None:
    """Check a user's settings as far as possible without the server.

    Raises:
        UsageError: when a name or a value is invalid in the file, when a setting is reserved for
            the trial, or when it belongs to a library that is not loaded.
    """
    loaded = " ".join(value for name, value in settings.items() if name.lower() in _PRELOADS)
    for name, value in settings.items():
        if not _NAME.fullmatch(name):
            raise _refused(
                name, "It is not the name of a setting", "See `SHOW ALL` in psql for the names"
            )
        if name.lower() in OURS_TO_SET:
            raise _refused(
                name,
                "The trial sets it, so that the server listens on a private socket only and its log"
                " can be read",
                "Leave it out; for other servers, start the server yourself and use --url",
            )
        if "\0" in value or "\n" in value:
            raise _refused(name, "Its value has more than one line", "Write it on one line")
        library, dot, _ = name.partition(".")
        if dot and library not in loaded:
            raise _refused(
                name,
                f"The library {library} is not loaded, so the server would ignore it",
                f"Add {library} to shared_preload_libraries, or leave it out",
            )


def settings_text(settings: Mapping[str, str]) -> str:
    """Return a configuration file with these settings."""
    lines = [f"{name} = '{_escaped(value)}'" for name, value in sorted(settings.items())]
    return "\n".join(["# Written by seatrial at every start.", *lines, ""])


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "''")


def _refused(name: str, cause: str, next_step: str) -> UsageError:
    return UsageError(
        seen=f"The setting {name!r} cannot be set",
        cause=cause,
        next_step=next_step,
    )
