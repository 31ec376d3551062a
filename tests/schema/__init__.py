"""Tests of the schema room: what a model is shown and what comes back."""
