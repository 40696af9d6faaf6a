"""What a target, a workload or a layout may be called."""

from __future__ import annotations

import re
from typing import Final

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
NAME_RULE: Final = "A name is at most 64 letters, digits, '-' and '_', for cells are called by it"
