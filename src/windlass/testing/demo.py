"""`python -m windlass.testing.demo`: watch the controller run a parameter-server job in a simulated cluster.

The controller is the real one; API server, kubelets and time are simulated, so it needs no cluster and takes no time.
"""

from windlass.model.framework import CompletedPods, Framework, RetryPolicySpec
from windlass.model.pods import PodPhase, PodView
from windlass.testing import builders
from windlass.testing.api_server import Verb, Watched
from windlass.testing.scenario import Event, EventKind, Faults, Scenario, Submission
from windlass.testing.simulation import Simulation

SUBMITTED_AT = 6.0


def job() -> Framework:
    """Two parameter servers that never end by themselves decide nothing; both workers have to succeed."""
    return builders.framework(
        "digits",
        builders.role("ps", 2, min_failed=1),
        builders.role(
            "worker", 2, min_succeeded=2, retry=RetryPolicySpec(fancy_retry_policy=True, max_retry_count=0)
        ),
        completed_pods=CompletedPods.KEEP,
    )


class Commentator:
    """Prints what changes, as it changes."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._said: dict[str, str] = {}
        simulation.server.watchers.append(self._on_event)

    def say(self, who: str, what: str) -> None:
        if self._said.get(who) == what:
            return
        self._said[who] = what
        seconds = (self._simulation.timeline.now - builders.NOW).total_seconds() - SUBMITTED_AT
        print(f"  {seconds:7.2f} s   {who:<18} {what}")

    def _on_event(self, verb: Verb, found: Watched) -> None:
        match found:
            case Framework():
                self._on_framework(found)
            case PodView() if verb is Verb.DELETED:
                self.say(f"pod {found.name}", "is gone")
            case PodView():
                self.say(f"pod {found.name}", _condition(found))
            case _:
                pass

    def _on_framework(self, framework: Framework) -> None:
        status = framework.status
        if status is None:
            self.say(framework.name, "is submitted")
            return
        completion = status.attempt_status.completion_status
        how = "" if completion is None else f" with {completion.phrase} ({completion.code})"
        summary = status.summary
        self.say(
            framework.name,
            f"{status.state}{how}: {summary.running} of {summary.tasks} tasks run, {summary.succeeded} succeeded",
        )
        for role in status.attempt_status.roles:
            for task in role.task_statuses:
                if task.attempt_status.id > 0:
                    self.say(
                        f"task {role.name}-{task.index}",
                        f"is retried: this is attempt {task.attempt_status.id}",
                    )


def _condition(pod: PodView) -> str:
    where = f" on {pod.spec.node_name}" if pod.spec.node_name else ""
    phase = PodPhase(pod.status.phase)
    why = f" ({pod.status.reason})" if pod.status.reason else ""
    return f"is {'being deleted' if pod.is_deleting else phase}{where}{why}"


def main() -> None:
    print("A parameter-server job in a simulated cluster; a worker is evicted on the way:\n")
    eviction = Event(at=SUBMITTED_AT + 4, kind=EventKind.EVICT_POD, number=3)
    simulation = Simulation(
        Scenario(
            seed=3,
            submissions=(Submission(SUBMITTED_AT, job()),),
            events=(eviction,),
            faults=Faults(duration=12),
            is_lockstep=True,
            endless_roles=frozenset({"ps"}),
        )
    )
    Commentator(simulation)
    simulation.run()
    total = sum(simulation.requests().values())
    print(f"\nThe controller needed {total} requests: {simulation.requests()}")


if __name__ == "__main__":
    main()
