"""Findings about workloads of files."""
