"""Steady state: rules, change points, phases."""
