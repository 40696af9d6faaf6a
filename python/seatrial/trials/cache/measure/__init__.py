"""Caches that are really run: those of a server, and a cache device of ZFS."""
