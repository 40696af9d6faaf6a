"""Measures databases: a server for each sample, its load, and monitoring."""
