"""Arrays as targets: they are built, measured, made to fail and removed."""
