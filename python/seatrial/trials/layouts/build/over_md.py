"""What backends whose legs are md arrays have in common: asking, breaking and mending them."""

from __future__ import annotations

from seatrial.trials.layouts.build import md_array, md_legs
from seatrial.trials.layouts.build.backend import ArrayState, Backend, Built, Step


class OverMd(Backend):
    """A backend of one or several arrays of md, whatever lies over them."""

    def obstacle(self) -> str:
        """Return why this kernel has no md."""
        return md_array.md_obstacle()

    def describe(self, built: Built) -> dict[str, str]:
        """Return what sysfs tells of the first leg."""
        return md_legs.facts(built)

    def state(self, built: Built, leg: int) -> ArrayState:
        """Return how a leg is now."""
        return md_legs.state(built, leg)

    def fail(self, built: Built, leg: int, member: int) -> str:
        """Make a drive of a leg fail."""
        return md_legs.fail(built, leg, member)

    def replace(self, built: Built, leg: int, member: int, new_device: str) -> None:
        """Have another drive take the place of one that failed."""
        md_legs.replace(built, leg, member, new_device)

    def start_scrub(self, built: Built, leg: int) -> None:
        """Start to check a leg."""
        md_array.start_scrub(built.construction.leg_devices[leg - 1])

    def mismatch_blocks(self, built: Built, leg: int) -> int | None:
        """Return what the last check of a leg found not to agree (blocks of 512 bytes)."""
        return md_array.mismatch_blocks(built.construction.leg_devices[leg - 1])

    def hasten(self, built: Built) -> list[Step]:
        """Return the steps that lift md's speed limits."""
        devices = md_legs.redundant_devices(built)
        return [step for device in devices for step in md_array.hasten_steps(device)]

    def limit_rebuild(self, built: Built, kib_per_s: int) -> list[Step]:
        """Return the steps that limit the rebuild of every leg."""
        devices = md_legs.redundant_devices(built)
        return [step for device in devices for step in md_array.limit_steps(device, kib_per_s)]
