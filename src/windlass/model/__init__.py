"""The values shared by all packages: Frameworks, their status, completion codes, views of pods.

Frozen `msgspec` structs. No I/O, no clock, no randomness. Decisions are in `windlass.decide`.
"""
