"""Hostile programs: each file of data is a class of attacks, each entry a program and what must happen."""
