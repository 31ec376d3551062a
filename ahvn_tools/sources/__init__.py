"""Where tools come from. Each module yields the recipe and the body that a ToolSpec is made of."""
