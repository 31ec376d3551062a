"""Tests of how a call runs; `doors.py` lists the doors of a call, so that a claim can be made about all of them."""
