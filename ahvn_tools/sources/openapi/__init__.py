"""OpenAPI documents as a source: each operation becomes a tool that sends one HTTP request."""
