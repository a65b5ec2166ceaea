"""YAML and JSON: parse with source positions, dump."""
