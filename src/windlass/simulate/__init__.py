"""Simulations of the controller on a virtual clock: randomised ones that check invariants, and `windlass plan`.

A Simulation runs the controller's own leader election, Reflectors, queue, cache and executor against an API server, a
garbage collector and kubelets in memory, with faults drawn from a seed. `plan` runs one job with chosen faults.
"""

from windlass.simulate.builders import framework, role
from windlass.simulate.invariants import Violation
from windlass.simulate.simulation import Simulation

__all__ = ["Simulation", "Violation", "framework", "role"]
