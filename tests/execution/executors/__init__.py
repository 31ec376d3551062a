"""Calls in executors."""
