"""The nine states of a Framework and of a task.

The two state machines are the same. For a Framework "the object" is the ConfigMap of the attempt, for a task it is
the pod of the attempt. `windlass.decide.transitions` has the allowed transitions as data.
"""

from enum import StrEnum


class State(StrEnum):
    """The state of the current attempt of a Framework or a task. The object is the ConfigMap of a Framework
    attempt, or the pod of a task attempt."""

    ATTEMPT_CREATION_PENDING = "AttemptCreationPending"
    """The object has to be created. It does not exist, or its creation is not confirmed yet.

    A new attempt starts here. A Framework with executionType Create, or a suspended one, stays here.

    Next: AttemptCreationRequested; AttemptCompleted when the attempt ends before it has an object.
    """

    ATTEMPT_CREATION_REQUESTED = "AttemptCreationRequested"
    """The API server has created the object, and the watch has not reported it yet.

    Next: AttemptPreparing; AttemptDeleting; AttemptDeletionPending when the attempt is stopped, e.g. because the watch
    did not report the object in time; AttemptCompleted.
    """

    ATTEMPT_PREPARING = "AttemptPreparing"
    """The object exists. Task: its pod is Pending. Framework: none of its tasks has run in this attempt.

    Next: AttemptRunning; the deletion states; AttemptCompleted.
    """

    ATTEMPT_RUNNING = "AttemptRunning"
    """The object exists. Task: its pod is running. Framework: at least one of its tasks has run in this attempt.

    Next: the deletion states; AttemptCompleted. Never back to AttemptPreparing.
    """

    ATTEMPT_DELETION_PENDING = "AttemptDeletionPending"
    """The completion status is decided and stored. The object still exists and has to be deleted.

    Next: AttemptDeletionRequested; AttemptDeleting; AttemptCompleted.
    """

    ATTEMPT_DELETION_REQUESTED = "AttemptDeletionRequested"
    """The API server has accepted the deletion of the object, and the watch has not reported it yet.

    Next: AttemptDeleting; AttemptCompleted.
    """

    ATTEMPT_DELETING = "AttemptDeleting"
    """The object is terminating, deleted by the controller or by another client.

    Next: AttemptCompleted.
    """

    ATTEMPT_COMPLETED = "AttemptCompleted"
    """Nothing of this attempt runs or will run. Whether it is retried is not decided yet.

    Next: AttemptCreationPending for a retry, perhaps after a delay; Completed.
    """

    COMPLETED = "Completed"
    """The last attempt has ended. Final."""

    @property
    def is_active(self) -> bool:
        """Whether the object was created, need not be deleted and is not being deleted. Only then do policies apply."""
        return self in ACTIVE_STATES

    @property
    def is_ending(self) -> bool:
        """Whether the object has to be deleted or is being deleted. Then the controller creates no pods, does not
        rescale and applies no policies."""
        return self in ENDING_STATES

    @property
    def is_over(self) -> bool:
        """Whether nothing of the current attempt runs or will run."""
        return self in OVER_STATES


# Short names, for loops over ten thousand tasks: in Python 3.11 an attribute access such as `State.COMPLETED` is slow.
CREATION_PENDING = State.ATTEMPT_CREATION_PENDING
CREATION_REQUESTED = State.ATTEMPT_CREATION_REQUESTED
PREPARING = State.ATTEMPT_PREPARING
RUNNING = State.ATTEMPT_RUNNING
DELETION_PENDING = State.ATTEMPT_DELETION_PENDING
DELETION_REQUESTED = State.ATTEMPT_DELETION_REQUESTED
DELETING = State.ATTEMPT_DELETING
ATTEMPT_COMPLETED = State.ATTEMPT_COMPLETED
COMPLETED = State.COMPLETED

ACTIVE_STATES = frozenset(
    {State.ATTEMPT_CREATION_REQUESTED, State.ATTEMPT_PREPARING, State.ATTEMPT_RUNNING},
)
ENDING_STATES = frozenset(
    {State.ATTEMPT_DELETION_PENDING, State.ATTEMPT_DELETION_REQUESTED, State.ATTEMPT_DELETING},
)
OVER_STATES = frozenset({State.ATTEMPT_COMPLETED, State.COMPLETED})
