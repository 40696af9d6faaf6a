"""Caches that are really run."""
