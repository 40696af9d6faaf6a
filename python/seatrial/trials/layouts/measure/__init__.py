"""Measures on layouts: builds them for their cells, injects faults under load, removes them."""
