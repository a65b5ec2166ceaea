"""The values that everything else speaks in: Frameworks, their status, completion codes, views of pods.

Frozen `msgspec` structs and nothing else. No I/O, no clock, no randomness, no decisions: what a value
*means* stands here, what to *do* about it stands in `windlass.decide`.
"""
