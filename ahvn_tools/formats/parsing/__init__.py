"""Parsing of a provider's responses and streams into calls."""
