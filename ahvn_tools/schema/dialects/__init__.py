"""Each provider's part of JSON Schema, and the conversion of any schema to it."""
