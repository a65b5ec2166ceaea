"""The controller: watches Frameworks, runs `decide`, stores statuses and performs actions.

`engine` has the queue, the cache and the executor. The executor gets an `Api` and a clock (Protocols) as arguments, so
that the Simulation can run it in memory on a virtual clock. `leader` has leader election, `observe` events, metrics and
logs. Decisions are made in `windlass.decide` only.
"""
