"""The commands ``plan``, ``risk``, ``caps`` and ``certify``."""
