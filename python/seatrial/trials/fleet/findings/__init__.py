"""Findings on hosts; one file each."""
