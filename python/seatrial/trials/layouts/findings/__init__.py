"""Findings about arrays; one file for each kind of finding."""
