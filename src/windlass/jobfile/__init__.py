"""The job file: fields, checks, and positions in the source text."""
