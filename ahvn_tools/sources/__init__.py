"""Tool sources: each module turns one kind of object into the template and the body that a ToolSpec is made from."""
