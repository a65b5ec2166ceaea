"""The commands of `windlass`, one per file."""
