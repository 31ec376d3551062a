"""Tests of bodies that run in worker processes."""
