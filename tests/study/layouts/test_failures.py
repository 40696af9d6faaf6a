"""What is broken while a workload goes on: how it reaches the cells, and what is refused."""

from __future__ import annotations

import pytest

from seatrial.study.plan import make_plan
from seatrial.trials.database.study.cells import OWN_FACTORS
from study.builders import said, study_of

IO = '[[workload]]\nkind = "io"\n'
RAID5 = '[[layout]]\nname = "r5"\nlevel = "raid5"\ndrives = 3\n'
PGBENCH = '[[workload]]\nkind = "pgbench"\nseconds = 60\n'
BROKEN = f"{IO}seconds = 60\n"


@pytest.mark.parametrize("workload", [BROKEN, PGBENCH])
def test_faults_reach_the_cells_in_order_of_time(workload: str) -> None:
    faults = "fail = [{ after_s = 9, fault = 'scrub' }, { after_s = 2.5, member = 3 }]\n"
    (cell,) = make_plan(study_of(RAID5 + workload + faults)).cells
    assert cell.spec["fail"] == [
        {"after_s": 2.5, "deed": "fail", "member": 3, "leg": 1, "sectors": 3},
        {"after_s": 9.0, "deed": "scrub", "member": 1, "leg": 1, "sectors": 3},
    ]
    assert cell.spec["rebuild_limit_kib_per_s"] == 0
    assert "rebuild_limit_kib_per_s" not in cell.factors


@pytest.mark.parametrize("workload", [BROKEN, PGBENCH])
def test_the_rebuild_limit_is_a_factor(workload: str) -> None:
    text = f"{RAID5}{workload}fail = {{ after_s = 2 }}\nrebuild_limit_kib_per_s = [0, 5000]\n"
    usual, limited = make_plan(study_of(text)).cells
    assert limited.key == f"{usual.key}/rebuild_limit_kib_per_s=5000"
    assert limited.factors["rebuild_limit_kib_per_s"] == 5000
    limits = [cell.spec["rebuild_limit_kib_per_s"] for cell in (usual, limited)]
    assert limits == [0, 5000]


def test_cells_that_break_nothing_say_nothing_of_it() -> None:
    for cell in make_plan(study_of(RAID5 + BROKEN + PGBENCH)).cells:
        assert not {"fail", "rebuild_limit_kib_per_s"} & {*cell.spec, *cell.factors}


def test_no_setting_of_a_server_is_called_like_a_key() -> None:
    assert {"fail", "rebuild_limit_kib_per_s"} <= OWN_FACTORS


def test_what_is_there_already_is_not_broken() -> None:
    text = f'[[target]]\nlabel = "ssd"\npath = "/mnt"\n{RAID5}{BROKEN}fail = {{ after_s = 2 }}\n'
    plan = make_plan(study_of(text))
    assert [cell.target for cell in plan.cells] == ["r5"]
    assert (
        "io is skipped on ssd: faults can be injected only into layouts built for the trial"
        in plan.notes
    )


def test_a_loss_of_everything_is_reported_before() -> None:
    text = '[[layout]]\nname = "r0"\ndrives = 2\n' + RAID5
    once = make_plan(study_of(f"{text}{BROKEN}fail = {{ after_s = 2 }}\n"))
    (note,) = once.notes
    assert note == (
        "io on r0: 1 drive of one leg fails, but raid0 on 2 drives survives 0; all its data is lost"
    )
    twice = f"{RAID5}{BROKEN}fail = [{{ after_s = 2 }}, {{ after_s = 3, member = 2 }}]\n"
    (note,) = make_plan(study_of(twice)).notes
    assert note.endswith("all its data is lost unless a rebuild has finished before")


STRIPED = '[[layout]]\nname = "s"\nbackend = "md+lvm"\nlevel = "raid5"\nlegs = 2\ndrives = 3\n'


def test_failures_of_different_legs_do_not_add_up() -> None:
    faults = "fail = [{ after_s = 2 }, { after_s = 3, leg = 2 }]\n"
    assert not make_plan(study_of(STRIPED + BROKEN + faults)).notes


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BROKEN + "fail = { after_s = 2 }", "fail is set, but the study has no [[layout]]"),
        (RAID5 + BROKEN + "rebuild_limit_kib_per_s = 5", "no effect here. It applies only with"),
        (RAID5 + IO + "seconds = 20\nfail = { after_s = 20 }", "seconds is 20, but the last fault"),
        (RAID5 + BROKEN + "fail = { after_s = 2, member = 4 }", "a leg of r5 has 3 active drives"),
        (RAID5 + BROKEN + "fail = { after_s = 2, leg = 2 }", "leg is 2, but r5 has 1 leg"),
        (RAID5 + BROKEN + "fail = { member = 2 }", "fail has no 'after_s'"),
        (RAID5 + BROKEN + "fail = { after_s = 2, fault = 'burn' }", "fail.fault is 'burn'"),
        (RAID5 + BROKEN + "fail = { after_s = 2, drive = 1 }", "fail.drive is not a key"),
        (
            RAID5 + BROKEN + "fail = [{ after_s = 2, fault = 'bad_sectors' }]",
            "fail[0].fault is 'bad_sectors', but the drives of r5 do not support this fault",
        ),
        (
            RAID5 + BROKEN + "fail = { after_s = 2, fault = 'drop_writes' }",
            "fail.fault is 'drop_writes', but the drives of r5 do not support this fault. Set",
        ),
        (RAID5 + BROKEN + "fail = { after_s = 2, sectors = 9 }", "fail.sectors has no effect here"),
        (
            RAID5 + BROKEN + "fail = { after_s = 2, fault = 'replace' }",
            "fail replaces drive 1 of leg 1, which has not failed",
        ),
        (
            RAID5 + "[[workload]]\nkind = 'fill'\nfail = { after_s = 2 }",
            "fail is set for a fill",
        ),
        (
            RAID5 + "[[workload]]\nkind = 'matrix'\nseconds = 9\nadaptive = true\n"
            "fail = { after_s = 2 }",
            "fail is set for an adaptive matrix",
        ),
        (
            "[[layout]]\nname = 'a'\nlegs = 2\nexpose = 'legs'\n"
            + BROKEN + "fail = { after_s = 2 }",
            "fail is set, but layout 'a' exposes its legs",
        ),
        (
            "[[target]]\nlabel = 't'\npath = '/mnt'\n" + RAID5 + BROKEN
            + "targets = ['t', 'r5']\nfail = { after_s = 2 }",
            "fail is set, but target 't' is not a layout",
        ),
        (
            "[[target]]\nlabel = 't'\npath = '/mnt'\n" + RAID5 + BROKEN
            + "targets = ['t']\nfail = { after_s = 2 }",
            "fail is set, but targets includes no layout: t",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_broken_is_reported_with_its_key(text: str, says: str) -> None:
    assert says in said(text)


def test_a_drive_that_failed_can_be_replaced() -> None:
    faults = "fail = [{ after_s = 2 }, { after_s = 3, fault = 'replace' }]\n"
    (cell,) = make_plan(study_of(RAID5 + BROKEN + faults)).cells
    assert [fault["deed"] for fault in cell.spec["fail"]] == ["fail", "replace"]


@pytest.mark.parametrize("table", ["fail = {{ {} }}\n", "fail = [{{ {} }}]\n"])
def test_the_former_key_is_read_as_fault_and_a_resume_finds_its_run(table: str) -> None:
    former, current = (
        make_plan(study_of(RAID5 + BROKEN + table.format(f"after_s = 2, {key} = 'scrub'")))
        for key in ("deed", "fault")
    )
    assert former.study.workloads[0].failures[0].fault == "scrub"
    assert former.plan_hash == current.plan_hash
