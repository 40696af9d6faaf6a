"""The profiles that ship, one TOML file each; options name them without loading an analysis."""

from __future__ import annotations

from typing import Final

BUILT_IN: Final = ("oltp", "warehouse", "telemetry", "log")
"""Their names, in the order in which a verdict mentions them."""
