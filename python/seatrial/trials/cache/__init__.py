"""Caches in front of storage: what they would serve, and what they serve."""
