"""How hosts are shown."""
