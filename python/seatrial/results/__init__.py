"""The results file; the only package with its SQL."""
