"""Trials of databases: a server for each sample, its load, and what is seen of it meanwhile."""
