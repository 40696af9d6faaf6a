"""Tests of before and after."""
