"""Tests of the executors, and of bodies that run in them."""
