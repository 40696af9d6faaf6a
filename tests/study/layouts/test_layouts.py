"""Layouts of a study: their variants, their targets, the drives they take, what is refused."""

from __future__ import annotations

import pytest

from seatrial.errors import StudyError
from seatrial.study.layouts.layout import DriveInfo, Layout, assigned, variants
from seatrial.study.layouts.text import layout_text
from seatrial.study.load import study_from_mapping, study_to_mapping
from seatrial.study.plan import is_done_once, make_plan, order
from seatrial.units import GIB, MIB
from study.builders import said, study_of

IO = '[[workload]]\nkind = "io"\n'
RAID5 = '[[layout]]\nname = "r5"\nlevel = "raid5"\ndrives = 3\n'


def drives_of(count: int, size_bytes: int | None = GIB) -> list[DriveInfo]:
    return [DriveInfo(name=f"d{number}", size_bytes=size_bytes) for number in range(1, count + 1)]


def labels_of(text: str, drives: int = 0) -> list[str]:
    return [target.label for target in make_plan(study_of(text), {}, drives_of(drives)).targets]


# ---- variants and targets ----------------------------------------------------------------------


def test_each_combination_of_factors_is_a_target() -> None:
    text = '[[layout]]\nname = "a"\nlevel = "raid5"\ndrives = [3, 4]\nchunk_kib = [64, 128]\n' + IO
    assert labels_of(text) == ["a-3-64k", "a-3-128k", "a-4-64k", "a-4-128k"]


def test_legs_are_written_with_their_drives() -> None:
    text = '[[layout]]\nname = "a"\nbackend = ["md+lvm", "md+md"]\nlegs = 2\ndrives = [2, 4]\n' + IO
    assert labels_of(text) == ["a-md-lvm-2x2", "a-md-lvm-2x4", "a-md-md-2x2", "a-md-md-2x4"]


def test_exposed_legs_are_targets_of_one_group() -> None:
    plan = make_plan(study_of('[[layout]]\nname = "a"\nlegs = 2\nexpose = "legs"\n' + IO))
    assert [(each.label, each.leg, each.group) for each in plan.targets] == [
        ("a-leg1", 1, "a"),
        ("a-leg2", 2, "a"),
    ]
    assert plan.groups() == ["a"]
    assert [cell.key for cell in plan.cells] == [
        "a-leg1/io/read/8192B/1t/1d",
        "a-leg2/io/read/8192B/1t/1d",
    ]


def test_a_backend_that_is_a_file_system_has_its_own() -> None:
    layout = Layout(name="a", backend=["md", "btrfs"], level="raid1", drives=2, filesystem="ext4")
    assert [spec.filesystem for spec in variants(layout)] == ["ext4", "btrfs"]


def test_legs_take_their_drives_from_their_own_half() -> None:
    (spec,) = variants(Layout(name="a", backend="md+lvm", legs=2, drives=2))
    places = assigned(spec, ["a1", "a2", "a3", "b1", "b2", "b3"])
    assert places.legs == [["a1", "a2"], ["b1", "b2"]]
    assert places.unused == ["a3", "b3"]


def test_without_a_file_system_the_target_is_a_device() -> None:
    plan = make_plan(study_of(RAID5 + 'filesystem = "none"\n[[workload]]\nkind = "copy"\n' + IO))
    assert plan.targets[0].kind == "device"
    assert any("copy is skipped on r5: a copy creates a second file" in note for note in plan.notes)


def test_variants_without_enough_drives_are_an_error_or_left_out() -> None:
    text = '[[layout]]\nname = "a"\ndrives = [1, 2, 4]\n'
    with pytest.raises(StudyError, match="Layout a-4 needs 4 drives, but only 2 are available"):
        labels_of(text + IO, drives=2)
    assert labels_of(text + "skip_too_large = true\n" + IO, drives=2) == ["a-1", "a-2"]
    assert labels_of(text + "skip_too_large = true\n" + IO) == ["a-1", "a-2", "a-4"]
    study = study_of(text + 'skip_too_large = true\n[drives]\nloop = "2x1G"\n' + IO)
    (note,) = make_plan(study).notes
    assert note == (
        "1 of 3 variants of layout a are skipped (a-4): they need more than the 2 available drives"
    )


def test_trial_files_are_as_long_as_fits_the_smallest_and_all_the_same() -> None:
    text = '[[layout]]\nname = "a"\ndrives = [1, 4]\n' + IO
    assert {t.size_bytes for t in make_plan(study_of(text)).targets} == {GIB}
    sized = make_plan(study_of(text), {}, drives_of(4, 256 * MIB))
    assert [target.size_bytes for target in sized.targets] == [128 * MIB, 128 * MIB]
    copying = make_plan(
        study_of(text + '[[workload]]\nkind = "copy"\n'), {}, drives_of(4, 256 << 20)
    )
    assert {target.size_bytes for target in copying.targets} == {64 * MIB}


def test_a_size_beyond_what_the_level_holds_is_refused() -> None:
    study = study_of(RAID5 + 'size = "3GiB"\n' + IO)
    with pytest.raises(
        StudyError, match="uses 3 GiB of layout 'r5', which has a capacity of at most 2 GiB"
    ):
        make_plan(study, {}, drives_of(3))
    assert make_plan(study, {}, drives_of(3, 2 * GIB)).targets[0].size_bytes == 3 * GIB


def test_a_bound_on_drives_holds_only_for_larger_ones() -> None:
    study = study_of(RAID5 + 'member_size = "2GiB"\n' + IO)
    for size_bytes, used_bytes in ((GIB, None), (2 * GIB, None), (4 * GIB, 2 * GIB)):
        layout = make_plan(study, {}, drives_of(3, size_bytes)).targets[0].layout
        assert layout is not None
        assert layout.member_bytes == used_bytes


def test_names_of_layouts_variants_and_legs_select_targets() -> None:
    layouts = '[[layout]]\nname = "a"\ndrives = [1, 2]\n'
    layouts += '[[layout]]\nname = "b"\nlegs = 2\nexpose = "legs"\n'
    for names, labels in (
        (["a"], ["a-1", "a-2"]),
        (["a-2"], ["a-2"]),
        (["b"], ["b-leg1", "b-leg2"]),
        (["b-leg2", "a-1"], ["a-1", "b-leg2"]),
    ):
        plan = make_plan(study_of(f"{layouts}{IO}targets = {names}\n".replace("'", '"')))
        assert [cell.target for cell in plan.cells] == labels
    assert "is 'c', which is not the label of a target" in said(f'{layouts}{IO}targets = ["c"]\n')


def test_layouts_and_targets_that_are_there_are_measured_in_one_study() -> None:
    text = '[[target]]\nlabel = "ssd"\npath = "/mnt"\n[[target]]\nlabel = "open"\n' + RAID5 + IO
    plan = make_plan(study_of(text))
    assert [target.label for target in plan.targets] == ["ssd", "r5"]
    assert plan.groups() == ["", "r5"]
    part = plan.of_group("r5", {"r5": "/mnt/built"})
    assert ([target.path for target in part.targets], len(part.cells)) == (["/mnt/built"], 1)
    assert {file.target for file in part.files} == {"r5"}


def test_thresholds_select_layouts() -> None:
    text = RAID5 + '[[layout]]\nname = "b"\n' + IO
    study = study_of(text + '[thresholds]\n"io[target=r5].iops" = "> 5"\n')
    (threshold,) = study.thresholds
    assert [threshold.selects(cell) for cell in make_plan(study).cells] == [True, False]


def test_a_study_with_layouts_comes_back_from_the_results_file() -> None:
    study = study_of(
        RAID5 + 'size = "1GiB"\nflaky = true\n[drives]\nloop = "4x2G"\n' + IO
        + "seconds = 9\nfail = [{ after_s = 1 }, { after_s = 2, fault = 'bad_sectors' }]\n"
    )  # fmt: skip
    assert study_from_mapping(study_to_mapping(study), "test") == study


def test_the_plan_of_other_layouts_is_another() -> None:
    one, other = (make_plan(study_of(f"{RAID5}chunk_kib = {kib}\n{IO}")) for kib in (64, 128))
    assert one.plan_hash != other.plan_hash
    assert [cell.key for cell in one.cells] == [cell.key for cell in other.cells]


# ---- order -------------------------------------------------------------------------------------


def test_a_round_takes_one_group_after_another_in_an_order_of_its_own() -> None:
    text = '[[layout]]\nname = "a"\ndrives = [1, 2, 3, 4]\n[[workload]]\nkind = "matrix"\n'
    plan = make_plan(study_of(text + '[[workload]]\nkind = "fill"\n'))
    keys = [cell.key for cell in plan.cells]
    orders = set()
    for number in range(6):
        cells = order(plan, number, keys)
        turns = list(dict.fromkeys(cell.target for cell in cells))
        assert sorted(cells, key=lambda cell: turns.index(cell.target)) == cells
        for turn in turns:
            assert next(cell for cell in cells if cell.target == turn).kind == "fill"
        orders.add(tuple(turns))
    assert len(orders) > 1


def test_what_breaks_an_array_comes_last_on_it() -> None:
    text = RAID5 + '[[workload]]\nkind = "pgbench"\n[[workload]]\nkind = "matrix"\n'
    broken = '[[workload]]\nname = "broken"\nkind = "io"\nseconds = 5\nfail = { after_s = 1 }\n'
    plan = make_plan(study_of(broken + text))
    for number in range(5):
        ordered = order(plan, number, [cell.key for cell in plan.cells])
        assert [cell.workload for cell in ordered[-2:]] == ["pgbench", "broken"]


def test_a_fill_of_what_each_round_builds_is_done_every_time() -> None:
    text = (
        '[[target]]\nlabel = "t"\npath = "/mnt"\n'
        + RAID5
        + '[[workload]]\nkind = "fill"\nonce = true\n'
    )
    plan = make_plan(study_of(text))
    assert [is_done_once(plan, cell) for cell in plan.cells] == [True, False]


def test_a_load_line_is_left_out_on_layouts() -> None:
    load_line = '[[workload]]\nkind = "loadline"\nlimit = "5ms"\n'
    plan = make_plan(study_of(RAID5 + IO + load_line))
    assert {cell.workload for cell in plan.cells} == {"io"}
    assert any(note.startswith("loadline is skipped on r5: ") for note in plan.notes)
    with pytest.raises(StudyError, match="after all rounds"):
        make_plan(study_of(RAID5 + load_line))


# ---- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('name = "a b"', "line 3: layout[0].name is 'a b'. A name has at most 64"),
        ('name = "trial"', "creates a second target named 'trial'"),
        ('name = "a"\ndrives = [2, 2]', "creates a second target named 'a-2'"),
        ('name = "a"\nlevel = "raid5"\ndrives = [2, 3]', "line 5: layout[0].drives is 2 with"),
        ('name = "a"\nlevel = "raid10"\ndrives = 5', "requires an even number, at least 4"),
        ('name = "a"\ndrives = 2\nspares = 1', "layout[0].spares is 1 with level raid0"),
        ('name = "a"\nchunk_kib = 96', "chunk_kib is 96. Expected a power of two"),
        ('name = "a"\nstripe_kib = 64', "stripe_kib has no effect here. It applies only to md+lvm"),
        ('name = "a"\nbackend = "md+lvm"', "legs is 1 with backend md+lvm. A stripe needs"),
        ('name = "a"\nlegs = 2', "legs is 2 with backend md. md+lvm and md+md stripe over legs"),
        ('name = "a"\nexpose = "legs"', "expose is 'legs' with backend md and 1 legs"),
        ('name = "a"\nfilesystem = "none"\nmount_options = ["x"]', "mount_options has no effect"),
        ('name = "a"\nbackend = "btrfs"\nfilesystem = "ext4"', "filesystem is 'ext4', but the"),
        ('name = "a"\ndelay_ms = [1.0, 2.0]', "delay_ms has 2 values for 1 drives"),
        ('name = "a"\nlevel = "raid7"', "level is 'raid7'. Did you mean 'raid6'"),
        ('name = "a"\n[drives]\nloop = "6"', "drives.loop is '6'. Expected a count and a size"),
        ('name = "a"\n[drives]\nloop = "6x2G"\nlab = "2x64M"', "lab is set together with loop"),
        ('name = "a"\n[drives]\nfolder = "/x"', "folder has no effect here. It applies only"),
        ('name = "a"\n[drives]\ndevices = ["/a", "/a"]', "drives.devices[1] holds '/a' twice"),
        ('name = "a"\n[[workload]]\nkind = "pgbench"\nstart = "as_is"', "start is 'as_is', but"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_reported_with_its_key(text: str, says: str) -> None:
    assert says in said(f"[[layout]]\n{text}\n{IO}")


def test_drives_without_layouts_have_no_effect() -> None:
    assert "drives.loop has no effect here" in said(f'[drives]\nloop = "6x2G"\n{IO}')


def test_two_layouts_cannot_make_one_label() -> None:
    text = '[[layout]]\nname = "a"\ndrives = [1, 2]\n[[layout]]\nname = "a-2"\n' + IO
    assert "layout[1].name creates a second target named 'a-2'" in said(text)


# ---- in words ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "reported"),
    [
        (
            Layout(name="a", level="raid5", drives=4, spares=1),
            "md raid5 of 4 drives + 1 spare, chunk 128 KiB, xfs",
        ),
        (
            Layout(name="a", backend="md+lvm", level="raid5", drives=3, legs=2, stripe_kib=256),
            "md+lvm stripe over 2 legs, each raid5 of 3 drives, chunk 128 KiB, stripe 256 KiB, xfs",
        ),
        (
            Layout(name="a", legs=2, expose="legs", filesystem="none", scheduler="none"),
            "2 separate legs, each md raid0 of 1 drive, no file system, scheduler none",
        ),
        (
            Layout(name="a", backend="zfs", level="raidz1", drives=3, logs=1, caches=2),
            "zfs raidz1 of 3 drives, 1 log drive, 2 cache drives",
        ),
        (
            Layout(name="a", backend="single", filesystem="ext4", flaky=True, delay_ms=40),
            "a single drive, ext4, with fault injection, each request delayed by 40 ms",
        ),
        (
            Layout(name="a", drives=3, filesystem="none", delay_ms=[0, 0, 50]),
            "md raid0 of 3 drives, chunk 128 KiB, no file system, "
            "requests of its drives delayed by 0, 0, 50 ms",
        ),
    ],
)
def test_a_variant_in_words(layout: Layout, reported: str) -> None:
    (spec,) = variants(layout)
    assert layout_text(spec) == reported
