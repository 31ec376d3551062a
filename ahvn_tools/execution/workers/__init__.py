"""Bodies in other processes: worker processes of this computer, which can be killed, and the workers of executors."""
