"""JSON Schema as data: generated from functions or explicit, validated, repaired and translated for providers."""
