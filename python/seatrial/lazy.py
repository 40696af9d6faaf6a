"""Modules that take long to import, loaded at their first use, so that a command starts at once."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
else:

    class _LazyModule:
        """Stands for a module until one of its attributes is needed."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> object:
            value = getattr(importlib.import_module(self._name), name)
            setattr(self, name, value)  # the next access does not come here
            return value

    np = _LazyModule("numpy")

__all__ = ["np"]
