"""Parses source files of models' projects in a process of its own, which hostile files can neither hang nor harm."""
