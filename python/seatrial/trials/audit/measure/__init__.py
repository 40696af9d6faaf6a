"""Measures audited matrices."""
