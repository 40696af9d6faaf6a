"""Measures workloads of files."""
