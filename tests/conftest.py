"""Settings for all tests."""

from hypothesis import settings

# How long one example takes says more about the machine's load than about the code.
settings.register_profile("any-load", deadline=None)
settings.load_profile("any-load")
