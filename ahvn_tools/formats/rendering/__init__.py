"""Writing tools, content and names for a provider."""
