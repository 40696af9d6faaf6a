"""Values of a workload file as numbers, texts, flags and distributions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from seatrial.study.problems import suggestion
from seatrial.trials.filebench.wml.statements import (
    Attribute,
    Distribution,
    Flag,
    Number,
    Sum,
    Text,
    Value,
    Variable,
)
from seatrial.trials.filebench.wml.words import WorkloadFileError, file_error, number_of

Amount = float | dict[str, object]
"""A number, or a distribution in the engine's notation (docs/engine.md)."""
NUMBER_MAX: Final = 1e18
_NESTED_MAX: Final = 50
_GAMMA_DEFAULT: Final = 1500.0
"""Shape of a random variable in thousandths, where none is given."""


class Scope:
    """The variables in scope at a point of the file.

    Args:
        file_name: For messages.
        variables: Variables of the whole file.
        local: Parameters of the enclosing composite.
    """

    def __init__(
        self,
        file_name: str,
        variables: Mapping[str, Attribute],
        local: Mapping[str, Attribute] | None = None,
    ) -> None:
        self._file_name = file_name
        self._variables = variables
        self._local = dict(local or {})

    def within(self, local: Mapping[str, Attribute]) -> Scope:
        """Return the scope of a composite used here with these parameters."""
        return Scope(self._file_name, self._variables, local)

    def resolve(self, attribute: Attribute, depth: int = 0) -> Value:
        """Return the value of an attribute, with variables and arithmetic replaced.

        Raises:
            WorkloadFileError: when a variable has no value, or refers to itself.
        """
        value, line = attribute.value, attribute.line
        if depth > _NESTED_MAX:
            raise self._error(line, "a variable refers to itself", "Its value is unknown")
        if isinstance(value, Variable):
            found = self._local.get(value.name) or self._variables.get(value.name)
            if found is None:
                known = [*self._local, *self._variables]
                cause = f"It has no value. {suggestion(value.name, known)}"
                raise self._error(line, f"the variable ${value.name}", cause)
            return self.resolve(Attribute(found.value, line), depth + 1)
        if isinstance(value, Sum):
            left = self._number(Attribute(value.left, line), depth + 1)
            right = self._number(Attribute(value.right, line), depth + 1)
            return Number(self._check_range(_calculate(value.sign, left, right), line))
        return value

    def number(self, attribute: Attribute) -> float:
        """Return a fixed number.

        Raises:
            WorkloadFileError: when it is anything else, or a variable has no value.
        """
        return self._number(attribute, 0)

    def _number(self, attribute: Attribute, depth: int) -> float:
        value = self.resolve(attribute, depth)
        if isinstance(value, Number):
            return self._check_range(value.value, attribute.line)
        seen = f"{_shown(value)} is not a number"
        cause = (
            "Only a fixed number can be here" if isinstance(value, Distribution) else "Expected one"
        )
        raise self._error(attribute.line, seen, cause)

    def integer(self, attribute: Attribute, least: int = 0) -> int:
        """Return a fixed whole number of at least ``least``.

        Raises:
            WorkloadFileError: when it is anything else, or a variable has no value.
        """
        number = self.number(attribute)
        if number != int(number) or number < least:
            expected = f"Expected a whole number of at least {least}"
            raise self._error(attribute.line, f"{number:g}", expected)
        return int(number)

    def flag(self, attribute: Attribute) -> bool:
        """Return whether an attribute is set: ``true``, a number other than 0, or without value.

        Raises:
            WorkloadFileError: when it is anything else, or a variable has no value.
        """
        value = self.resolve(attribute)
        if isinstance(value, Flag):
            return value.value
        return self.number(attribute) != 0

    def text(self, attribute: Attribute) -> str:
        """Return a name or text.

        Raises:
            WorkloadFileError: when it is anything else, or a variable has no value.
        """
        value = self.resolve(attribute)
        if isinstance(value, Text):
            return value.value
        expected = "Expected a name"
        raise self._error(attribute.line, f"{_shown(value)} is not a name", expected)

    def amount(self, attribute: Attribute) -> Amount:
        """Return a number, or a distribution for the engine.

        Raises:
            WorkloadFileError: when it is neither, or the distribution is not known.
        """
        value = self.resolve(attribute)
        if not isinstance(value, Distribution):
            return self.number(attribute)
        form = self._cvar if value.form == "cvar" else self._randvar
        return form(value, attribute.line)

    def _error(self, line: int, seen: str, cause: str) -> WorkloadFileError:
        return file_error(self._file_name, line, seen, cause)

    def _check_range(self, number: float, line: int) -> float:
        if not math.isfinite(number) or abs(number) > NUMBER_MAX:
            raise self._error(line, f"{number:g}", "The number is out of range")
        return number

    def _cvar(self, value: Distribution, line: int) -> Amount:
        kind = self._word(value, "type", line).removeprefix("cvar-")
        if kind not in _CUSTOM_VARIABLES:
            cause = suggestion(kind, list(_CUSTOM_VARIABLES))
            raise self._error(line, f"the distribution {kind!r}", cause)
        names, make = _CUSTOM_VARIABLES[kind]
        given = self._parameters(self._word(value, "parameters", line), line)
        unknown = [name for name in given if name not in names]
        missing = [name for name in names if name not in given]
        if unknown or missing:
            seen = f"cvar-{kind} has the parameters {', '.join(given) or 'none'}"
            raise self._error(line, seen, f"Expected {', '.join(names)}")
        return {"law": make(given), **self._limits(value)}

    def _parameters(self, written: str, line: int) -> dict[str, float]:
        found = {}
        for part in filter(None, written.replace(" ", "").split(";")):
            name, _, number = part.partition(":")
            try:
                found[name] = self._check_range(number_of(number), line)
            except (ValueError, IndexError):
                seen = f"the parameter {part!r} is not NAME:NUMBER"
                raise self._error(line, seen, "Expected mean:16384, for example") from None
        return found

    def _word(self, value: Distribution, name: str, line: int) -> str:
        if name not in value.attributes:
            raise self._error(line, f"a {value.form} without {name}", f"Add {name}=...")
        return self.text(value.attributes[name])

    def _limits(self, value: Distribution) -> dict[str, object]:
        names = [name for name in ("min", "max", "round") if name in value.attributes]
        return {name: self.number(value.attributes[name]) for name in names}

    def _randvar(self, value: Distribution, line: int) -> Amount:
        def given(name: str, default: float) -> float:
            attribute = value.attributes.get(name)
            return default if attribute is None else self.number(attribute)

        kind = self._word(value, "type", line)
        shape = given("gamma", _GAMMA_DEFAULT) / 1000
        least, mean = given("min", 0), given("mean", shape)
        distributions: dict[str, Callable[[], dict[str, object]]] = {
            # Filebench documents only the lower end; the mean is the middle.
            "uniform": lambda: {"kind": "uniform", "lower": least, "upper": 2 * mean - least},
            "gamma": lambda: {"kind": "gamma", "mean": mean, "shape": shape, "floor": least},
            "tabular": lambda: {"kind": "table", "rows": self._rows(value, line)},
        }
        if kind not in distributions:
            cause = suggestion(kind, list(distributions))
            raise self._error(line, f"the distribution {kind!r}", cause)
        return {"law": distributions[kind](), **self._limits(value)}

    def _rows(self, value: Distribution, line: int) -> list[list[float]]:
        if not value.table:
            raise self._error(line, "a tabular randvar without a table", "Add randtable")
        return [[self.number(Attribute(end, line)) for end in row] for row in value.table]


def _calculate(sign: str, left: float, right: float) -> float:
    if sign == "/":
        return left / right if right else math.inf
    return {"+": left + right, "-": left - right, "*": left * right}[sign]


def _shown(value: Value) -> str:
    if isinstance(value, Flag):
        return "true" if value.value else "false"
    if isinstance(value, Text):
        return repr(value.value)
    return "a random number" if isinstance(value, Distribution) else "a number"


_CUSTOM_VARIABLES: Final[
    Mapping[str, tuple[tuple[str, ...], Callable[[Mapping[str, float]], dict[str, object]]]]
] = {
    "uniform": (
        ("lower", "upper"),
        lambda p: {"kind": "uniform", "lower": p["lower"], "upper": p["upper"]},
    ),
    "gamma": (
        ("mean", "gamma"),
        lambda p: {"kind": "gamma", "mean": p["mean"], "shape": p["gamma"]},
    ),
    "exponential": (("mean",), lambda p: {"kind": "exponential", "mean": p["mean"]}),
    "normal": (
        ("mean", "sigma"),
        lambda p: {"kind": "normal", "mean": p["mean"], "sigma": p["sigma"]},
    ),
    "lognormal": (
        ("shape", "scale"),
        lambda p: {"kind": "lognormal", "shape": p["shape"], "scale": p["scale"]},
    ),
    "weibull": (
        ("shape", "scale"),
        lambda p: {"kind": "weibull", "shape": p["shape"], "scale": p["scale"]},
    ),
    "erlang": (
        ("shape", "rate"),
        lambda p: {"kind": "gamma", "mean": p["shape"] / (p["rate"] or 1), "shape": p["shape"]},
    ),
    "triangular": (
        ("lower", "upper", "mode"),
        lambda p: {
            "kind": "triangular",
            "lower": p["lower"],
            "upper": p["upper"],
            "mode": p["mode"],
        },
    ),
}
"""Filebench's custom variables: their parameters, and the engine's distribution."""


def mean_of(amount: Amount) -> float:
    """Return the mean of an amount, without its limits.

    Source: the textbook means of these distributions.
    """
    if not isinstance(amount, dict):
        return float(amount)
    distribution = cast("Mapping[str, Any]", amount["law"])
    return float(_MEANS[distribution["kind"]](distribution))


def _table_mean(distribution: Mapping[str, Any]) -> float:
    total = sum(row[0] for row in distribution["rows"]) or 1
    return float(sum(row[0] / total * (row[1] + row[2]) / 2 for row in distribution["rows"]))


_MEANS: Final[Mapping[str, Callable[[Mapping[str, Any]], float]]] = {
    "uniform": lambda d: (d["lower"] + d["upper"]) / 2,
    "gamma": lambda d: d["mean"],
    "exponential": lambda d: d["mean"],
    "normal": lambda d: d["mean"],
    "lognormal": lambda d: d["scale"] * math.exp(min(d["shape"] ** 2 / 2, 100)),
    "weibull": lambda d: d["scale"] * math.gamma(1 + 1 / max(d["shape"], 0.02)),
    "triangular": lambda d: (d["lower"] + d["upper"] + d["mode"]) / 3,
    "table": _table_mean,
}
