"""A decision that waits to be stored holds for the version of the Framework on which it was made."""

import builders
import msgspec
from tests.controller.benches import Bench

from windlass.controller.engine.adaptive_batching import MIN_STATUS_DELAY
from windlass.model.framework import RetryPolicySpec
from windlass.model.pods import ContainerState, ContainerStatus, ContainerTerminated
from windlass.model.states import State


def test_edit_of_the_retry_policy_retries_a_failure_not_stored_yet() -> None:
    bench = Bench(builders.framework("job", builders.role("worker", 2, min_failed=2)))
    for _ in range(2):
        bench.run()
        bench.show()
    bench.set_phases("Running")
    bench.run()
    bench.wait(MIN_STATUS_DELAY)
    assert "store AttemptRunning" in bench.run()
    failed = ContainerStatus(name="main", state=ContainerState(terminated=ContainerTerminated(5)))
    bench.set_pod("job-worker-1", phase="Failed", container_statuses=(failed,))
    assert bench.run() == [], "the failure waits to be stored"

    framework = bench.cache.framework(bench.key)
    assert framework is not None
    bench.port.version += 1
    metadata = msgspec.structs.replace(framework.metadata, resource_version=str(bench.port.version))
    retried = builders.role("worker", 2, min_failed=2, retry=RetryPolicySpec(max_retry_count=1))
    spec = builders.framework("job", retried).spec
    bench.cache.put_framework(msgspec.structs.replace(framework, metadata=metadata, spec=spec))
    bench.run()
    bench.wait(MIN_STATUS_DELAY)
    bench.run()

    stored = bench.cache.framework(bench.key)
    assert stored is not None
    assert stored.status is not None
    task = stored.status.attempt_status.roles[0].task_statuses[1]
    assert task.retry_policy_status.total_retried_count == 1
    assert task.state is not State.COMPLETED
