"""A tool as data: JSON that `to_dict` writes and `from_dict` reads, and what its pickle contains."""
