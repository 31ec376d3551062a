"""HTTP tools: a request description as a frozen value, and a body that sends it safely."""
