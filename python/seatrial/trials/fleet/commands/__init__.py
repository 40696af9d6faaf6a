"""The commands of many hosts."""
