"""Short ways to studies and plans for the tests of this room."""

from __future__ import annotations

import pytest

from seatrial.errors import StudyError
from seatrial.study.load import parse_study
from seatrial.study.model import Plan, TargetInfo
from seatrial.study.plan import make_plan
from seatrial.study.schema import Study


def study_of(text: str) -> Study:
    """The study of a text that has a name of its own."""
    return parse_study(f'name = "test"\n{text}', "test.toml")


def plan_of(text: str, **info: object) -> Plan:
    """The plan of such a study, with what is known of its target ``trial``."""
    return make_plan(study_of(text), {"trial": TargetInfo(**info)})  # type: ignore[arg-type]


def said(text: str) -> str:
    """What is said of such a study that does not hold, which is called ``my.toml``."""
    with pytest.raises(StudyError) as caught:
        parse_study(f'name = "s"\n{text}', "my.toml")
    return str(caught.value)
