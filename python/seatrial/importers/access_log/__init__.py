"""Access logs of web servers in: requests and their times by URL pattern."""

from seatrial.importers.access_log.pages import AccessLog, PageSums
from seatrial.importers.access_log.reading import is_access_log, read_access_log

__all__ = ["AccessLog", "PageSums", "is_access_log", "read_access_log"]
