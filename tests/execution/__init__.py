"""Tests of how a call runs. `entry_points.py` lists the entry points of a call, to test a claim about all of them."""
