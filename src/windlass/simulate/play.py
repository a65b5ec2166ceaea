"""`python -m windlass.simulate.play --seeds 2000`: simulate many scenarios and report violated invariants."""

import argparse
import hashlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import msgspec

import windlass
from windlass.model.framework import FrameworkSpec
from windlass.simulate import scenario as scenarios
from windlass.simulate.invariants import Violation
from windlass.simulate.scenario import QUIET, Scenario
from windlass.simulate.simulation import Simulation

CHUNK = 50
MAX_SHRINK_RUNS = 600


class Outcome(msgspec.Struct, frozen=True):
    """A chunk of seeds that was simulated, and its violations by seed."""

    first: int
    seeds: int
    failures: list[tuple[int, str]] = []
    source: str = ""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Outcome)


class Progress:
    """The progress of a long simulation in a file, so that an interrupted run continues where it stopped.

    Each line has the outcome of a chunk of seeds and the fingerprint of the source. Outcomes of another version of the
    source are ignored.
    """

    def __init__(self, path: Path | None) -> None:
        """Without a path, outcomes are neither read nor stored."""
        self._path = path
        self._source = "" if path is None else _fingerprint()
        self._finished = {(each.first, each.seeds): each for each in self._read()}

    def outcome(self, seeds: range) -> Outcome | None:
        """Return the stored outcome of these seeds; None if they have to be simulated."""
        return self._finished.get((seeds.start, len(seeds)))

    def record(self, seeds: range, failures: list[tuple[int, str]]) -> None:
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        line = _encoder.encode(Outcome(seeds.start, len(seeds), failures, self._source))
        with self._path.open("ab") as file:
            # An interrupted run may have left an incomplete line.
            file.write(b"\n" + line)

    def _read(self) -> list[Outcome]:
        if self._path is None or not self._path.exists():
            return []
        found = []
        for line in self._path.read_bytes().splitlines():
            try:
                outcome = _decoder.decode(line)
            except msgspec.DecodeError:
                continue
            if outcome.source == self._source:
                found.append(outcome)
        return found


def _fingerprint() -> str:
    """Return a hash of all modules, because each of them may change the outcome of a seed."""
    digest = hashlib.sha256()
    root = Path(windlass.__path__[0])
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def first_failure_in(seeds: Sequence[int]) -> tuple[int, str] | None:
    """Return the first seed that fails, with its violation or error; None if all pass."""
    for seed in seeds:
        failure = failure_of(scenarios.draw(seed))
        if failure is not None:
            return seed, failure
    return None


def failures_in(seeds: Sequence[int]) -> list[tuple[int, str]]:
    """Return every seed that fails, with its violation or error."""
    found = ((seed, failure_of(scenarios.draw(seed))) for seed in seeds)
    return [(seed, failure) for seed, failure in found if failure is not None]


def report(seed: int) -> str:
    """Describe a violation: the seed, the command that replays it, and a minimal scenario."""
    shortest = shrink(scenarios.draw(seed))
    return (
        f"seed {seed} violates an invariant: {failure_of(scenarios.draw(seed))}\n"
        f"replay it with: python -m windlass.simulate.play --first {seed} --seeds 1\n"
        f"minimal scenario found, with the violation: {failure_of(shortest)}\n{shortest.describe()}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m windlass.simulate.play", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="number of scenarios (default: 2000)")
    parser.add_argument("--first", type=int, default=0, help="first seed (default: 0)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="number of processes (default: one per core)"
    )
    parser.add_argument(
        "--fail-fast",
        action="store_true",
        help="simulate the seeds in order in one process, stop at the first violation and do not shrink it",
    )
    parser.add_argument(
        "--progress",
        type=Path,
        help="file with the progress: a run that was interrupted continues where it stopped (default: none)",
    )
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.fail_fast:
        return _play_until_failure(seeds)
    return _play_all(seeds, arguments.jobs, Progress(arguments.progress))


def _play_until_failure(seeds: range) -> int:
    found = first_failure_in(seeds)
    if found is None:
        print(f"{len(seeds)} scenarios simulated, 0 violated an invariant")
        return 0
    print(f"seed {found[0]}: {found[1]}")
    return 1


def _play_all(seeds: range, jobs: int, progress: Progress) -> int:
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    started = time.monotonic()
    stored = {chunk: outcome for chunk in chunks if (outcome := progress.outcome(chunk)) is not None}
    broken = [failure for outcome in stored.values() for failure in outcome.failures]
    if stored:
        print(f"{sum(map(len, stored))} of {len(seeds)} scenarios were simulated by an earlier run")
    with ProcessPoolExecutor(jobs, initializer=_disable_logs) as pool:
        running = {pool.submit(failures_in, chunk): chunk for chunk in chunks if chunk not in stored}
        for done in as_completed(running):
            progress.record(running[done], done.result())
            broken += done.result()
    broken.sort()
    took = time.monotonic() - started
    print(f"{len(seeds)} scenarios simulated in {took:.1f} s, {len(broken)} violated an invariant")
    for seed, failure in broken[1:20]:
        print(f"  seed {seed}: {failure}")
    if broken:
        print(report(broken[0][0]))
    return 1 if broken else 0


# Shrinking a failing scenario to a minimal one that still fails


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
    max_runs: int = MAX_SHRINK_RUNS,
) -> Scenario:
    """Simplify the scenario step by step while it still fails, with at most `max_runs` simulations."""
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


def _disable_logs() -> None:
    """Disable the controller's warnings about the faults."""
    logging.disable(logging.WARNING)


if __name__ == "__main__":
    _disable_logs()
    sys.exit(main())
