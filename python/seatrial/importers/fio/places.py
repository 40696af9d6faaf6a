"""Where fio's jobs read and write, as the targets of a study.

An existing file or a device is the target itself; a file that fio would make is a trial file of
Seatrial's own in the same directory. Jobs of one place share it, each with its range.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import msgspec

from seatrial.importers.fio.job_file import JobSection
from seatrial.importers.fio.notes import JobNotes
from seatrial.importers.fio.options import access_of, size_bytes

_FAR: Final = re.compile(r"[^A-Za-z0-9_-]+")
LABEL_CHARACTERS_MAX: Final = 48


class _Place(msgspec.Struct):
    """One target on its way.

    Attributes:
        label: What cells call it.
        path: Directory, device or file.
        size_bytes: What the jobs need of it; 0 for all of it.
    """

    label: str
    path: str
    size_bytes: int = 0


class Places:
    """The targets of a job file; what is done otherwise than by fio goes to ``notes``."""

    def __init__(self, notes: JobNotes) -> None:
        self._notes = notes
        self._places: dict[str, _Place] = {}
        self._ranges: dict[str, tuple[str, int, int]] = {}

    def of(self, section: JobSection, workload: str, *, writes: bool) -> str:
        """Return the label of a job's target.

        Args:
            section: The job.
            workload: Name of its workload.
            writes: Whether it writes.
        """
        path = self._path(section, writes=writes)
        place = self._places.get(path)
        if place is None:
            place = self._places[path] = _Place(self._label(path), path)
        start_bytes, length_bytes = self._range(section)
        if length_bytes:
            place.size_bytes = max(place.size_bytes, start_bytes + length_bytes)
        self._ranges[workload] = (path, start_bytes, length_bytes)
        return place.label

    def targets(self) -> list[dict[str, Any]]:
        """Return the targets with the keys of a study file."""
        return [
            {"label": place.label, "path": place.path}
            | ({"size": place.size_bytes} if place.size_bytes else {})
            for place in self._places.values()
        ]

    def range_of(self, workload: str) -> dict[str, int]:
        """Return the range of a workload, where it is only a part of its target."""
        path, start_bytes, length_bytes = self._ranges[workload]
        found = {"range_start": start_bytes} if start_bytes else {}
        if length_bytes and start_bytes + length_bytes < self._places[path].size_bytes:
            found["range_length"] = length_bytes
        return found

    def _label(self, path: str) -> str:
        plain = _FAR.sub("-", Path(path).name).strip("-_")[:LABEL_CHARACTERS_MAX] or "trial"
        labels = {place.label for place in self._places.values()}
        count, label = 2, plain
        while label in labels:
            label, count = f"{plain}-{count}", count + 1
        return label

    def _path(self, section: JobSection, *, writes: bool) -> str:
        named, folder = section.options.get("filename", ""), section.options.get("directory", "")
        if not named:
            if access_of(section.options).threads > 1:
                self._note(section, "all threads share one trial file; fio gives each its own")
            return folder or "."
        first, *more = named.replace("\\:", "\0").split(":")
        if more:
            self._note(section, f"filename={named}: only the first file of it")
        path = Path(folder) / first.replace("\0", ":")
        if path.exists() and not path.is_dir():
            if writes:
                self._note(section, f"it writes to {path}: Seatrial asks for --destroy {path}")
            return str(path)
        self._note(section, f"{path} is not there: a trial file in {path.parent} takes its place")
        return str(path.parent)

    def _range(self, section: JobSection) -> tuple[int, int]:
        """Return start and length in bytes; a length of 0 is all that there is."""
        found = {}
        for option in ("offset", "size", "filesize"):
            text = section.options.get(option, "")
            try:
                found[option] = size_bytes(text, section.options.get("kb_base", "1024"))
            except ValueError:
                found[option] = 0
                if text:
                    self._note(section, f"{option}={text} is not honoured; say it in bytes")
        if found["size"] and found["filesize"] and found["size"] != found["filesize"]:
            text = section.options["filesize"]
            self._note(section, f"filesize={text} is not honoured; size says how much is used")
        return found["offset"], found["size"] or found["filesize"]

    def _note(self, section: JobSection, text: str) -> None:
        self._notes.add(section.name, text)
