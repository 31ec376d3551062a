"""Adapters, one for each package: how its documentation makes, calls and exports a tool."""
