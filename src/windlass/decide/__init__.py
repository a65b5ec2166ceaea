"""Decisions: pure functions from what is known to what should be stored and done. One policy per file.

No I/O, no clock, no logging, no manifests. `decide` in `windlass.decide.decision` is the list of steps; what goes in
and comes out is in `windlass.decide.types`; which state may follow which is data in `windlass.decide.transitions`.
"""

from windlass.decide.decision import decide
from windlass.decide.deletion import delete_owned_objects

__all__ = ["decide", "delete_owned_objects"]
