"""Shrinks a failing scenario to a minimal one that still fails."""

from collections.abc import Callable, Iterator

import msgspec

from windlass.model.framework import FrameworkSpec
from windlass.simulate.scenario import QUIET, Scenario
from windlass.simulate.simulation import Simulation
from windlass.simulate.violation import Violation

MAX_RUNS = 600


def failure_of(scenario: Scenario) -> str | None:
    """Return the violation or error of a run; None if it passes."""
    try:
        Simulation(scenario).run()
    except Violation as violation:
        return str(violation)
    except Exception as error:  # a crash of the controller is a finding too
        return f"{type(error).__name__}: {error}"
    return None


def shrink(
    scenario: Scenario,
    fails: Callable[[Scenario], object] = failure_of,
    max_runs: int = MAX_RUNS,
) -> Scenario:
    """Remove one part after the other while the rest still fails."""
    runs = 0
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate in _simpler(scenario):
            if runs >= max_runs:
                return scenario
            runs += 1
            if fails(candidate):
                scenario, is_smaller = candidate, True
                break
    return scenario


def _simpler(scenario: Scenario) -> Iterator[Scenario]:
    """Yield simpler scenarios, large steps first."""
    replace = msgspec.structs.replace
    half = len(scenario.events) // 2
    if half > 1:
        yield replace(scenario, events=scenario.events[:half])
        yield replace(scenario, events=scenario.events[half:])
    for number in range(len(scenario.submissions)):
        if len(scenario.submissions) > 1:
            yield _without_submission(scenario, number)
    for number in range(len(scenario.events)):
        yield replace(scenario, events=scenario.events[:number] + scenario.events[number + 1 :])
    for field, quiet in msgspec.structs.asdict(QUIET).items():
        if getattr(scenario.faults, field) != quiet:
            yield replace(scenario, faults=replace(scenario.faults, **{field: quiet}))
    for number, submission in enumerate(scenario.submissions):
        for spec in _simpler_specs(submission.framework.spec):
            framework = replace(submission.framework, spec=spec)
            simpler = replace(submission, framework=framework)
            yield replace(
                scenario,
                submissions=(
                    *scenario.submissions[:number],
                    simpler,
                    *scenario.submissions[number + 1 :],
                ),
            )


def _without_submission(scenario: Scenario, number: int) -> Scenario:
    """Remove a submission and its events, and renumber the others."""
    events = tuple(
        msgspec.structs.replace(event, framework=event.framework - (event.framework > number))
        for event in scenario.events
        if event.framework != number
    )
    submissions = scenario.submissions[:number] + scenario.submissions[number + 1 :]
    return msgspec.structs.replace(scenario, submissions=submissions, events=events)


def _simpler_specs(spec: FrameworkSpec) -> Iterator[FrameworkSpec]:
    replace = msgspec.structs.replace
    for number, role in enumerate(spec.task_roles):
        before, after = spec.task_roles[:number], spec.task_roles[number + 1 :]
        if len(spec.task_roles) > 1:
            yield replace(spec, task_roles=before + after)
        if role.task_number > 1:
            yield replace(spec, task_roles=(*before, replace(role, task_number=role.task_number - 1), *after))
    plain = FrameworkSpec(task_roles=spec.task_roles)
    for field in spec.__struct_fields__:
        if getattr(spec, field) != getattr(plain, field):
            yield replace(spec, **{field: getattr(plain, field)})
