"""Measuring on layouts: built for their cells, broken while a load lasts, taken apart again."""
