"""The nine states that a Framework and a Task go through.

The two machines are the same. For a Framework "the object" is the attempt's ConfigMap, for a Task it is the
attempt's pod. Which state may follow which is data, in `windlass.decide.transitions`.
"""

from enum import StrEnum


class State(StrEnum):
    """Where the current attempt of a Framework or of a Task stands."""

    ATTEMPT_CREATION_PENDING = "AttemptCreationPending"
    """The object does not exist, or nobody has been told yet that it does; it is wanted.

    A new attempt starts here. Held here: a Framework of executionType Create, or a suspended one.
    Next: AttemptCreationRequested; AttemptCompleted when the attempt ends before it has an object.
    """

    ATTEMPT_CREATION_REQUESTED = "AttemptCreationRequested"
    """The API server has answered that it created the object, and the watch has not shown it yet.

    Next: AttemptPreparing; AttemptDeleting; AttemptDeletionPending when it never shows up; AttemptCompleted.
    """

    ATTEMPT_PREPARING = "AttemptPreparing"
    """The object exists. A Task's pod is Pending; none of a Framework's tasks has run in this attempt.

    Next: AttemptRunning; the deletion states; AttemptCompleted.
    """

    ATTEMPT_RUNNING = "AttemptRunning"
    """The object exists. A Task's pod runs; at least one of a Framework's tasks has run in this attempt.

    Next: the deletion states; AttemptCompleted. Never back to AttemptPreparing.
    """

    ATTEMPT_DELETION_PENDING = "AttemptDeletionPending"
    """How the attempt ended is decided and stored. The object still exists and has to go.

    Next: AttemptDeletionRequested; AttemptDeleting; AttemptCompleted.
    """

    ATTEMPT_DELETION_REQUESTED = "AttemptDeletionRequested"
    """The API server has answered that it will delete the object, and the watch has not shown it yet.

    Next: AttemptDeleting; AttemptCompleted.
    """

    ATTEMPT_DELETING = "AttemptDeleting"
    """The object is being deleted, by us or by somebody else.

    Next: AttemptCompleted.
    """

    ATTEMPT_COMPLETED = "AttemptCompleted"
    """Nothing of this attempt runs, and nothing of it ever will. Whether another attempt follows is open.

    Next: AttemptCreationPending for a retry, perhaps after a delay; Completed.
    """

    COMPLETED = "Completed"
    """The last attempt has ended. Final."""

    @property
    def is_active(self) -> bool:
        """The object is wanted and was asked for: policies apply."""
        return self in ACTIVE_STATES

    @property
    def is_ending(self) -> bool:
        """The object is on its way out: no new pods, no rescale, no policy."""
        return self in ENDING_STATES

    @property
    def is_over(self) -> bool:
        """Nothing of the current attempt runs or will run."""
        return self in OVER_STATES


# The same by short names. Python 3.11 needs a multiple of the time for `State.COMPLETED`, and what looks at each of ten
# thousand tasks notices.
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
