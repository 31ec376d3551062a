"""The program of a process that runs programs in Monty, apart from the host, which their values could hang."""
