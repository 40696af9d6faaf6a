"""The browser, as for the pages of all topics."""

from report.conftest import browser, desktop
