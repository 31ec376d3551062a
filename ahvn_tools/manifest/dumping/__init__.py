"""A toolkit as the data of a manifest: its sources, the options of its tools, its groups, toolsets and settings."""
