"""Bodies that run in worker processes, which a timeout really ends."""
