"""The invariants that are checked at the end of a simulation."""

import builders
import msgspec
import pytest

from windlass.decide import initial_status
from windlass.model import names
from windlass.model.status import Condition, ConditionType
from windlass.simulate.invariants import Invariants, Violation
from windlass.simulate.scenario import Scenario
from windlass.simulate.simulation import Simulation


@pytest.mark.parametrize("is_owner_removed", [False, True])
def test_service_of_a_removed_owner_does_not_take_the_name(is_owner_removed: bool) -> None:
    simulation = Simulation(Scenario(seed=0, submissions=()))
    server = simulation.server
    waiting = server.create_framework(builders.framework("job", builders.role("worker", 1)))
    owner = server.create_framework(builders.framework("owner", builders.role("worker", 1)))
    condition = Condition(type=ConditionType.NAME_TAKEN, status="True", last_transition_time=builders.NOW)
    status = initial_status.framework_status(waiting, builders.NOW)
    server.put_framework(waiting.with_status(msgspec.structs.replace(status, conditions=(condition,))))
    server.services[waiting.namespace, names.service_name("job")] = (
        "removed" if is_owner_removed else owner.uid
    )
    invariants = Invariants(server, simulation.kubelets)
    if not is_owner_removed:
        invariants.check_end()
        return
    with pytest.raises(Violation, match="job waits for its name, which is free"):
        invariants.check_end()
