"""The page cache of a lab's NFS server, kept empty during a sample.

Client and server share one kernel, whose page cache would serve every read of a direct client. To
simulate a server whose memory is small compared with the data, the pages of the exported files are
dropped continually. The client has its own pages.

Source: posix_fadvise(2), ``POSIX_FADV_DONTNEED``.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

PERIOD_S: Final = 0.1


class PageCacheDropper:
    """Drops the clean pages of all files in a folder, as a context."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._files: list[int] = []

    def __enter__(self) -> Self:
        for path in self._folder.rglob("*"):
            if path.is_file():
                self._files.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        self._drop()
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._ends.set()
        self._thread.join()
        for file in self._files:
            os.close(file)

    def _run(self) -> None:
        while not self._ends.wait(PERIOD_S):
            self._drop()

    def _drop(self) -> None:
        for file in self._files:
            with suppress(OSError):
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
