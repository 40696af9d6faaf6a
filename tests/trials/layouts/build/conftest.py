"""The devices and folders of the tests of the machine, for arrays."""

from machine.conftest import _swept, child, image, loops, mounts, state_dir
