"""Comparison of two runs or targets, cell by cell and overall."""
