"""A tool as JSON data, for `ToolSpec.to_dict` and `ToolSpec.from_dict`: where its code is, and none of its values."""
