"""For tests of Windlass and of what is built on it: builders, and a Simulation of everything around the controller.

The Simulation runs the controller's own queue, cache and executor against an API server, a garbage collector and
kubelets in memory, on a virtual clock and one seed. The simulated parts are for scale and faults; that the real ones
behave like them is shown elsewhere, on real ones.
"""

from windlass.simulate.builders import framework, role
from windlass.simulate.simulation import Simulation
from windlass.simulate.violation import Violation

__all__ = ["Simulation", "Violation", "framework", "role"]
