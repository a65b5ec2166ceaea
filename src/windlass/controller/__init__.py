"""The controller's engine: what wakes, what is known, and what carries a decision out.

Queue, cache and executor talk to the world through a port (a Protocol) and get the time as an argument; nothing here
knows HTTP, and nothing here decides. The Simulation runs these very files on a virtual clock.
"""
