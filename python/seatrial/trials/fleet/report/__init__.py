"""How hosts that measured together are shown."""
