"""What differs between two fingerprints."""

from __future__ import annotations

from typing import Any, Final

VOLATILE: Final = frozenset(
    {
        "taken",
        "health",
        "kernel_log",
        "memory_available_bytes",
        "memory_copy_bytes_per_s",
        "load_average_1m",
        "pressure",
        "free_bytes",
        "error_counts",
        "errors",
    }
)
"""Keys, at any depth, whose values change by themselves and make no difference."""

_NAMING_KEYS: Final = ("name", "address")


def differences(a: dict[str, Any], b: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return key path, value in ``a`` and value in ``b`` of all that differs, volatile keys aside.

    Parts of a list are paired by their name or address, as in ``target.stack[sda].scheduler``; what
    only one side has stands against None.
    """
    found: list[tuple[str, Any, Any]] = []
    _compare("", a, b, found)
    return found


def _compare(path: str, a: object, b: object, found: list[tuple[str, Any, Any]]) -> None:
    """Add to ``found`` what differs between two values at a key path."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in {**a, **b}:
            if key not in VOLATILE:
                _compare(f"{path}.{key}" if path else key, a.get(key), b.get(key), found)
        return
    named_a, named_b = _named(a), _named(b)
    if named_a is not None and named_b is not None:
        for name in {**named_a, **named_b}:
            _compare(f"{path}[{name}]", named_a.get(name), named_b.get(name), found)
    elif a != b:
        found.append((path, a, b))


def _named(value: object) -> dict[str, Any] | None:
    """Return a list of mappings that bear names as a mapping by name; None for anything else."""
    if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
        return None
    for key in _NAMING_KEYS:
        names = [part.get(key) for part in value]
        if None not in names and len(set(names)) == len(names):
            return dict(zip(map(str, names), value, strict=True))
    return None
