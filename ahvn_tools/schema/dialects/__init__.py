"""What each provider accepts of JSON Schema."""
