"""JSON Schema as data: made from a function or given as it is, checked against, made strict."""
