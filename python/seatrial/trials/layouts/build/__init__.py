"""Layouts: arrays and their file systems, built, described, broken, mended and taken apart."""
