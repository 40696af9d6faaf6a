"""Exports of runs: one module per format, each with ``render(summary) -> str``."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from seatrial.findings.model import Summary

FORMATS: Final = {
    "json": "json_document",
    "csv": "csv_table",
    "markdown": "markdown",
    "ci-summary": "ci_summary",
    "junit": "junit",
    "openmetrics": "openmetrics",
    "bm-flash": "bm_flash",
    "fio-json": "fio_json",
    "fio-job": "fio_job",
}
"""Name of each format and the module that writes it; imported only when requested."""


def export(summary: Summary, name: str) -> str:
    """Return a run in one of the :data:`FORMATS`, ending with a line feed.

    Raises:
        KeyError: ``name`` is not one of them.
        UsageError: the format cannot express anything in this run.
    """
    module = import_module(f"{__name__}.{FORMATS[name]}")
    return str(module.render(summary))
