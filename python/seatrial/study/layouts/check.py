"""What must hold between the keys of layouts, of drives, and of what is broken meanwhile.

What a single backend cannot do is its own to say (``Backend.check``); here stands what holds for
all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from seatrial.errors import StudyError
from seatrial.study.layouts.drives import parse_drives
from seatrial.study.layouts.layout import FILESYSTEMS, Drives, Layout, LayoutSpec, variants
from seatrial.study.names import NAME, NAME_RULE
from seatrial.study.problems import ConstraintError
from seatrial.study.schema import Study
from seatrial.study.values import many

NO_FILESYSTEM: Final = "none"


def layouts(study: Study) -> Iterator[ConstraintError]:
    """Yield what does not hold within a layout, or between it and the other targets."""
    taken = {target.label for target in study.targets}
    for index, layout in enumerate(study.layouts):
        place = ("layout", index)
        if not NAME.fullmatch(layout.name):
            yield ConstraintError(f"is {layout.name!r}", NAME_RULE, *place, "name")
        for found in (*_of_layout(layout), *_labels(layout, taken)):
            yield ConstraintError(found.seen, found.expected, *place, *found.path)


def drives(study: Study) -> Iterator[ConstraintError]:
    """Yield what does not hold in what layouts are built of."""
    if study.drives == Drives():
        return
    given = {name: getattr(study.drives, name) for name in ("devices", "loop", "lab")}
    named = [name for name, value in given.items() if value]
    if not study.layouts:
        expected = "Only a [[layout]] is built of drives, and the study has none"
        yield ConstraintError("has no effect here", expected, *_at((named or ["folder"])[0]))
    if len(named) > 1:
        yield ConstraintError(
            f"is given beside {named[0]}", "Expected one of devices, loop and lab", *_at(named[1])
        )
    if study.drives.folder and not study.drives.loop:
        yield ConstraintError("has no effect here", "It belongs to loop", *_at("folder"))
    seen: set[str] = set()
    for nth, device in enumerate(study.drives.devices):
        if not device or device in seen:
            reported = f"holds {device!r} twice" if device else "is empty"
            yield ConstraintError(
                reported, "Expected paths of different devices", *_at("devices"), nth
            )
        seen.add(device)
    for name in ("loop", "lab"):
        try:
            parse_drives(given[name] or "1x1G")
        except StudyError:
            expected = "Expected number and size, such as 6x2G: six of 2 GiB each"
            yield ConstraintError(f"is {given[name]!r}", expected, *_at(name))


def _at(key: str) -> tuple[str, str]:
    return "drives", key


def _labels(layout: Layout, taken: set[str]) -> Iterator[ConstraintError]:
    """Yield names that two targets would have; ``taken`` grows by those of the layout."""
    # The layout's own name stands in ``targets`` for all its variants.
    labels = [label for spec in variants(layout) for label in spec.target_labels]
    names = [layout.name, *(label for label in labels if label != layout.name)]
    for name in names:
        if name in taken:
            yield ConstraintError(
                f"makes a second target called {name!r}",
                "Give the layout another name, and each value of a factor once",
                "name",
            )
            return
        if not NAME.fullmatch(name):
            yield ConstraintError(f"makes a target called {name!r}", NAME_RULE, "name")
        taken.add(name)


def _of_layout(layout: Layout) -> Iterator[ConstraintError]:
    for chunk in [*many(layout.chunk_kib), layout.stripe_kib or 4]:
        if chunk & (chunk - 1):
            key = "stripe_kib" if chunk == layout.stripe_kib else "chunk_kib"
            yield ConstraintError(f"is {chunk}", "Expected a power of two, such as 64 or 128", key)
    specs = list(variants(layout))
    for spec in specs:
        yield from _of_variant(spec)
    if layout.stripe_kib is not None and not any(spec.is_striped for spec in specs):
        yield ConstraintError(
            "has no effect here", "It belongs to md+lvm and md+md, which stripe legs", "stripe_kib"
        )
    if all(spec.filesystem == NO_FILESYSTEM for spec in specs):
        for key in ("mkfs_options", "mount_options"):
            if getattr(layout, key):
                yield ConstraintError(
                    "has no effect here", "There is no file system to have it", key
                )
    if all(spec.backend in FILESYSTEMS for spec in specs):
        others = [each for each in many(layout.filesystem) if each != specs[0].backend]
        if others and layout.filesystem != _DEFAULT.filesystem:
            yield ConstraintError(
                f"is {others[0]!r}, but the backend is a file system itself",
                f"Leave it out, or write {specs[0].backend!r}",
                "filesystem",
            )
    delays = many(layout.delay_ms)
    members = max(spec.members for spec in specs)
    if len(delays) > members:
        yield ConstraintError(
            f"holds {len(delays)} values for {members} drives",
            "Expected one for all drives, or one for each",
            "delay_ms",
        )


_DEFAULT: Final = Layout(name="default")


def _of_variant(spec: LayoutSpec) -> Iterator[ConstraintError]:
    """Yield what no backend could build of a variant."""
    facts = spec.facts
    if spec.drives < facts.members_min or (facts.even and spec.drives % 2):
        even = "an even number, " if facts.even else ""
        yield ConstraintError(
            f"is {spec.drives} with level {spec.level}",
            f"{spec.level} takes {even}at least {facts.members_min}; levels with different numbers "
            "of drives each have a [[layout]] of their own",
            "drives",
        )
    if spec.spares and not facts.losses_survived(max(spec.drives, facts.members_min)):
        yield ConstraintError(
            f"is {spec.spares} with level {spec.level}",
            "A spare takes the place of a failed drive, and this level survives none",
            "spares",
        )
    if spec.is_striped and spec.legs < 2:
        yield ConstraintError(
            f"is {spec.legs} with backend {spec.backend}", "A stripe is over 2 legs or more", "legs"
        )
    if spec.expose == "legs":
        if spec.is_striped or spec.legs < 2:
            yield ConstraintError(
                f"is 'legs', with backend {spec.backend} and {spec.legs} legs",
                "Expected two legs or more that nothing stripes over",
                "expose",
            )
    elif spec.legs > 1 and not spec.is_striped:
        yield ConstraintError(
            f"is {spec.legs} with backend {spec.backend}",
            "Legs are striped over by md+lvm or md+md, or are targets of their own with "
            "expose = 'legs'",
            "legs",
        )
