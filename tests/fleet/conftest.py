"""One cluster for the whole session."""

from __future__ import annotations

import os

import pytest

from fleet.lab_of_three import HOSTS, LabRequest, lab_of, require_ray, throttled_folder


@pytest.fixture(scope="package")
def target(tmp_path_factory):
    """A folder on a device of which all hosts together get 1,500 requests a second."""
    require_ray()
    with throttled_folder(tmp_path_factory.mktemp("throttled")) as folder:
        yield folder


@pytest.fixture(scope="package")
def lab(target):
    """Three hosts; the clock of the second is 3 s ahead."""
    request = LabRequest(hosts_count=HOSTS, clock_shifts_s={2: 3.0}, sets_clocks=True)
    with lab_of(request, f"fleet-tests-{os.getpid()}") as built:
        yield built
