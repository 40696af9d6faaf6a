"""What holds for every test: none fails because the machine was slow."""

from hypothesis import settings

settings.register_profile("seatrial", deadline=None)
settings.load_profile("seatrial")
