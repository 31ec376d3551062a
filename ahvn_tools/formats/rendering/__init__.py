"""Rendering of tools, results and names for a provider."""
