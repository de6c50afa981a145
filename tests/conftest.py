"""Hypothesis draws the same examples in every run, and waits for slow machines."""

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("ci")
