"""Schemas: pruning, defaulting and validation. `typed` is for built-in kinds, `structural` for custom resources."""
