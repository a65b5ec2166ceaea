"""A scenario of the Simulation with many Frameworks, for a test and a benchmark."""

from random import Random

import builders

from windlass.model.framework import RetryPolicySpec
from windlass.simulate.scenario import Event, EventType, Faults, Scenario, Submission


def draw(seed: int, count: int, tasks: int = 2) -> Scenario:
    """Draw a scenario of many Frameworks at once, with faults."""
    random = Random(seed)
    retry = RetryPolicySpec(fancy_retry_policy=True, max_retry_count=2)
    submissions = tuple(
        Submission(
            at=random.uniform(0, count / 100),
            framework=builders.framework(
                f"job{number}",
                builders.role("worker", tasks, retry=RetryPolicySpec(max_retry_count=1)),
                retry_policy=retry,
            ),
        )
        for number in range(count)
    )
    events = tuple(
        Event(
            at=random.uniform(0, count / 100),
            type=random.choice(
                (EventType.DELETE_POD, EventType.EVICT_POD, EventType.DELETE_CONFIG_MAP_FOREGROUND)
            ),
            framework=random.randrange(count),
            number=random.randrange(tasks),
        )
        for _ in range(count // 20)
    )
    faults = Faults(
        conflict=0.01,
        error_before=0.01,
        error_after=0.01,
        watch_delay=0.5,
        watch_drop=0.001,
        watch_repeat=0.01,
        task_failure=0.1,
    )
    return Scenario(
        seed,
        submissions,
        tuple(sorted(events, key=lambda event: event.at)),
        faults,
        replicas=1,
        keeps_records=True,
        faults_end=count / 100 + 60,
    )
