"""docs/study-file.md: its examples are valid, and it explains every key."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from seatrial.study.layouts.layout import Drives, Failure, Layout
from seatrial.study.load import study_from_mapping
from seatrial.study.plan import make_plan
from seatrial.study.sampled import SampledWorkload
from seatrial.study.schema import (
    CLASSIC,
    AccessLine,
    AccessSpecification,
    Budget,
    BurstCredit,
    DeviceModel,
    Rounds,
    ServiceTime,
    SizeShare,
    SlowBlockSizes,
    Span,
    Study,
    Target,
    WriteCache,
)
from seatrial.study.thresholds import LATENCIES, QUANTITIES
from seatrial.topic import topics
from seatrial.trials.database.study.workloads import OnDatabase

TEXT = (Path(__file__).resolve().parents[2] / "docs/study-file.md").read_text()
EXAMPLES = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
STRUCTS = [Study, Rounds, Budget, Target, AccessSpecification, AccessLine, SizeShare]
LAYOUTS = [Layout, Drives, Failure]
MODELS = [DeviceModel, ServiceTime, WriteCache, BurstCredit, Span, SlowBlockSizes]
KINDS = [kind for topic in topics() for kind in topic.workloads()]


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_can_be_copied(example: str) -> None:
    data = {"name": "example", "workload": [{"kind": "commit"}, {"kind": "matrix"}]}
    assert make_plan(study_from_mapping(data | tomllib.loads(example), "example")).cells


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 7


@pytest.mark.parametrize("struct", [*STRUCTS, *LAYOUTS, *MODELS, *KINDS])
def test_every_key_is_explained(struct: type[msgspec.Struct]) -> None:
    for key in struct.__struct_encode_fields__:
        assert re.search(rf"[`\[{{ ]{key}[`\], ]", TEXT), f"{struct.__name__}.{key}"


@pytest.mark.parametrize("struct", [kind for kind in KINDS if issubclass(kind, OnDatabase)])
def test_every_key_of_a_database_is_in_an_example(struct: type[msgspec.Struct]) -> None:
    common = set(SampledWorkload.__struct_encode_fields__)
    examples = "\n".join(EXAMPLES)
    for key in set(struct.__struct_encode_fields__) - common:
        assert re.search(rf"^(?:\[?\[workload\.{key}\]|{key} = )", examples, re.MULTILINE), key


def test_every_kind_and_specification_is_explained() -> None:
    for kind in KINDS:
        assert f"`{kind.__struct_config__.tag}`" in TEXT
    for name in CLASSIC:
        assert f"| `{name}` |" in TEXT


def test_every_quantity_is_explained() -> None:
    for name in (*LATENCIES, "stall_max"):
        assert f"`{name}`" in TEXT
    for quantity in QUANTITIES:
        if not quantity.endswith(("_ns", "_us", "_ms", "_s")) or quantity.endswith("_per_s"):
            assert f"`{quantity}`" in TEXT


def test_the_defaults_are_those_of_the_schema() -> None:
    rounds, study = Rounds(), Study(name="x", workloads=[])
    assert f"| `min` | {rounds.min} |" in TEXT
    assert f"| `max` | {rounds.max} |" in TEXT
    assert f"| `precision` | {rounds.precision} |" in TEXT
    assert f"| `seed` | {study.seed} |" in TEXT
