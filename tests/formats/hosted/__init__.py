"""Services whose models write programs that call tools: the protocols of Anthropic and OpenAI, played strictly."""
