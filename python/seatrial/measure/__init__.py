"""Measures cells; does not interpret."""
