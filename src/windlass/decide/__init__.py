"""Decisions: pure functions from the observed state to the status to store and the actions to take. One policy per
file.

No I/O, no clock, no logging, no manifests. `decide` in `windlass.decide.decision` runs the steps;
`windlass.decide.types` has its input and output; `windlass.decide.transitions` has the allowed state transitions as
data. The numbers of statements, including those with an A, refer to docs/behaviours.md.
"""

from windlass.decide.decision import decide
from windlass.decide.deletion import decide_deletion

__all__ = ["decide", "decide_deletion"]
