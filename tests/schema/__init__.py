"""Tests of the schema package: what a model sees, what a tool accepts and what it returns."""
