"""docs/schema is made from the structures of the documents, and says all that these publish."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Annotated, Literal

import msgspec
import pytest
from jsonschema import Draft202012Validator

from seatrial.published import FLATTENED, HIDDEN, Count, named, one_of, publish
from seatrial.report.exports.json_document import Document
from seatrial.stats.estimate import Estimate, Range

TOOL = Path(__file__).parents[2] / "tools" / "generate" / "schemas.py"


class Drive(msgspec.Struct, frozen=True, kw_only=True):
    """A drive.

    Attributes:
        path: Where it is.
        serial: Its number.
    """

    path: str
    serial: str = ""


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What is done to it.

    Attributes:
        kind: Which way.
        more: Its own factors.
    """

    kind: Annotated[str, one_of("read", "write")]
    more: Annotated[dict[str, int | bool], FLATTENED] = {}


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it.

    Attributes:
        reads: How many; None where nobody counted.
        p99: Absent where it is not known.
    """

    reads: Count | None
    p99: float | msgspec.UnsetType = msgspec.field(name="p99.9", default=msgspec.UNSET)


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One trial.

    Attributes:
        drive: What was tried, by its path.
        load: How.
        figures: What came of it.
        rate: As estimated.
        secret: Of no use elsewhere.
    """

    PUBLISHED = ("is_fast",)

    drive: Annotated[Drive, named("path")]
    load: Annotated[Load, FLATTENED]
    figures: Figures
    rate: Estimate
    secret: Annotated[bytes, HIDDEN] = b""

    @property
    def is_fast(self) -> bool:
        """Whether it is."""
        return self.rate.value > 1


class TrialDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A trial.

    Made for this test.

    Attributes:
        trials: All of them.
    """

    kind: Literal["trial"] = "trial"
    trials: list[Trial]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("schemas", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def trial(**changes) -> Trial:
    rate = Estimate(value=2, low=1, high=3, rounds=3, unit="IOPS", scatter=Range(low=0, high=9))
    fields = {
        "drive": Drive(path="/dev/sdx", serial="S1"),
        "load": Load(kind="read", more={"zone": 3}),
        "figures": Figures(reads=None),
        "rate": rate,
        "secret": b"s",
    }
    return Trial(**(fields | changes))


def test_what_is_published_of_a_structure():
    assert publish(trial(figures=Figures(reads=4, p99=1.5))) == {
        "path": "/dev/sdx",
        "kind": "read",
        "zone": 3,
        "figures": {"reads": 4, "p99.9": 1.5},
        "rate": {
            "value": 2,
            "low": 0,
            "high": 9,
            "rounds": 3,
            "unit": "IOPS",
            "over": "range",
        },
        "is_fast": True,
    }
    assert publish(trial())["figures"] == {"reads": None}


def test_the_schema_says_what_is_published(tool):
    schema = tool.schema_of(TrialDocument)
    assert (schema["title"], schema["description"]) == ("A trial", "Made for this test.")
    assert set(schema["$defs"]) == {"Trial", "Figures", "Estimate"}
    part = schema["$defs"]["Trial"]
    names = ["path", "kind", "figures", "rate", "is_fast"]
    assert list(part["properties"]) == part["required"] == names
    assert part["properties"]["path"] == {
        "type": "string",
        "description": "What was tried, by its path.",
    }
    assert part["properties"]["kind"]["enum"] == ["read", "write"]
    assert part["additionalProperties"] == {"type": ["integer", "boolean"]}
    assert part["properties"]["is_fast"] == {"type": "boolean", "description": "Whether it is."}
    figures = schema["$defs"]["Figures"]
    assert figures["required"] == ["reads"]
    assert figures["properties"]["reads"] == {
        "type": ["integer", "null"],
        "minimum": 0,
        "description": "How many; null where nobody counted.",
    }
    assert "scatter" not in schema["$defs"]["Estimate"]["properties"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, ""),
        ({"zone": "outer"}, "'outer' is not of type 'integer', 'boolean'"),
        ({"kind": "erase"}, "'erase' is not one of"),
        ({"figures": {"reads": -1}}, "less than the minimum"),
        ({"figures": {}}, "'reads' is a required property"),
    ],
)
def test_a_document_is_held_against_it(tool, change, said):
    document = json.loads(json.dumps(publish(TrialDocument(trials=[trial()]))))
    document["trials"][0] |= change
    found = list(Draft202012Validator(tool.schema_of(TrialDocument)).iter_errors(document))
    assert said in "".join(each.message for each in found)
    assert len(found) == bool(said)


def test_the_files_are_as_the_documents(tool, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["schemas.py", "--check"])
    assert tool.main() == 0
    for each in tool.FOLDER.iterdir():
        (tmp_path / each.name).write_text(each.read_text())
    monkeypatch.setattr(tool, "FOLDER", tmp_path)
    (tmp_path / "clean.schema.json").write_text("{}\n")
    (tmp_path / "gone.schema.json").write_text("{}\n")
    assert tool.main() == 1
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == [
        "docs/schema/clean.schema.json",
        "docs/schema/gone.schema.json",
    ]
    monkeypatch.setattr("sys.argv", ["schemas.py"])
    assert tool.main() == 0
    monkeypatch.setattr("sys.argv", ["schemas.py", "--check"])
    assert tool.main() == 0
    assert not (tmp_path / "gone.schema.json").exists()


def test_every_name_of_every_document_is_explained(tool):
    unexplained = []
    for document in tool.documents():
        schema = tool.schema_of(document)
        for name, part in {document.__name__: schema, **schema.get("$defs", {})}.items():
            for key, value in part.get("properties", {}).items():
                if not value.get("description"):
                    unexplained.append(f"{name}.{key}")
    assert sorted(set(unexplained)) == []


def test_every_document_has_the_head(tool):
    for document in tool.documents():
        assert list(tool.schema_of(document)["required"])[:3] == ["seatrial", "schema", "kind"]
        assert issubclass(document, Document)
    assert tool.documents()[0].__base__(kind="x").as_text().startswith('{\n  "seatrial": "')
