"""Audits: sections, tables and charts on the page, tables on the terminal."""
