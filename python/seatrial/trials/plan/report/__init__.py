"""How plans, risks, caps and certificates are shown."""
