"""Processes that end in time, with everything that they started, and that see and reach no more than they must."""
