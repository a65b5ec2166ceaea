"""The values that packages share: Frameworks, their status, completion codes, job files, settings, views of pods.

Frozen `msgspec` structs. No I/O, no clock, no randomness. Decisions are in `windlass.decide`.
"""
