"""Bodies that run in the workers of a `concurrent.futures.Executor`, in other processes or on other computers."""
