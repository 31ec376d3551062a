"""Bodies that run in worker processes, which a timeout or a cancellation kills with all that they started."""
