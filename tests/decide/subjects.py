"""Subjects of the retry tables: a Framework or a task, under the same policy and with the same steps."""

from builders import framework, role
from tests.decide.worlds import World

from windlass.decide.types import Rules
from windlass.model.framework import RetryPolicySpec, TaskSpec
from windlass.model.states import State
from windlass.model.status import FrameworkStatus, TaskStatus

SUCCESS, UNKNOWN, TRANSIENT, CONFLICT, PERMANENT = 0, 1, 200, 201, 210
"""Exit codes by their completion type."""


class RetrySubject:
    """A Framework with one task, or a task of a Framework whose other task keeps running."""

    def __init__(
        self, kind: str, policy: RetryPolicySpec, uid: str = "uid", rules: Rules | None = None
    ) -> None:
        self.kind = kind
        if kind == "framework":
            self.world = World(framework("job", role(), retry_policy=policy, uid=uid), rules)
        else:
            self.world = World(framework("job", role(tasks=2, min_failed=-1, retry=policy), uid=uid), rules)
        self.world.start()

    @property
    def status(self) -> FrameworkStatus | TaskStatus:
        return self.world.status if self.kind == "framework" else self.world.task()

    @property
    def attempt_id(self) -> int:
        return self.status.attempt_status.id

    @property
    def counts(self) -> tuple[int, int]:
        """Return the total number of retries, and the number that counts for maxRetryCount."""
        retries = self.status.retry_policy_status
        return retries.total_retried_count, retries.accountable_retried_count

    @property
    def delay(self) -> int | None:
        return self.status.retry_policy_status.retry_delay_sec

    @property
    def is_waiting(self) -> bool:
        return self.status.state is State.ATTEMPT_COMPLETED

    def edit_policy(self, policy: RetryPolicySpec) -> None:
        if self.kind == "framework":
            self.world.edit(retry_policy=policy)
        else:
            self.world.edit_role("worker", task=TaskSpec(retry_policy=policy))

    def end(self, exit_code: int) -> None:
        """End the pod of the attempt, without time passing."""
        if exit_code == SUCCESS:
            self.world.succeed()
        else:
            self.world.fail(exit_code=exit_code)
        self.world.settle()

    def end_and_retry(self, exit_code: int) -> None:
        """End the pod, wait for the retry delay, and run the next pod."""
        self.end(exit_code)
        if self.is_waiting:
            self.world.wake()
        self.world.run_pods()
        self.world.settle()
