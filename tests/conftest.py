"""Hypothesis without deadlines: how long an example takes depends on the machine, and is no claim of a test."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("suite", deadline=None)
settings.load_profile("suite")
