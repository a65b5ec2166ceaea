"""The controller: watches Frameworks, runs `decide`, stores statuses and performs actions.

`engine` has the queue, cache and executor, which use a port (a Protocol) and get the time as an argument, so that the
Simulation runs them on a virtual clock. `leader` has leader election, `observe` events, metrics and logs. Decisions are
made in `windlass.decide` only.
"""
