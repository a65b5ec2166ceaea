"""What came of the actions for one Framework, until the objects or the stored status show it."""

from datetime import datetime, timedelta

from windlass.decide.types import CreatedPod, Outcomes, RejectedPod
from windlass.model.status import FrameworkStatus


class Record:
    def __init__(self, framework_uid: str) -> None:
        self.framework_uid = framework_uid
        self._created: dict[str, CreatedPod] = {}
        self._rejected: dict[str, RejectedPod] = {}
        self._postponed: dict[str, float] = {}
        """By name, on the clock that never steps back."""
        self._failures: dict[str, int] = {}
        self._vain_rounds = 0
        self._uncertain: set[str] = set()
        self._name_taken = ""
        self._deletion_requested: set[str] = set()
        self._forced: set[str] = set()
        self._collection_deletion_requested: set[str] = set()
        self._emptying: dict[str, str] = {}
        """Attempts of which some pods were asked to go, and where the next request goes on."""
        self._is_framework_deletion_requested = False
        self._service_of_attempt = -1
        self._published_gang = ""

    def outcomes(self, now: datetime, monotonic: float) -> Outcomes:
        """A view, valid until the next change."""
        return Outcomes(
            created=self._created,
            rejected=self._rejected,
            postponed={
                name: now + timedelta(seconds=until - monotonic) for name, until in self._postponed.items()
            },
            uncertain=self._uncertain,
            name_taken=self._name_taken,
            deletion_requested=self._deletion_requested,
            forced=self._forced,
            collection_deletion_requested=self._collection_deletion_requested,
            is_framework_deletion_requested=self._is_framework_deletion_requested,
            service_of_attempt=self._service_of_attempt,
            published_gang=self._published_gang,
        )

    def created(self, name: str, created: CreatedPod | None = None) -> None:
        """The object of this name was created. Of a pod it is told for which task attempt."""
        if created is not None:
            self._created[name] = created
        self._succeed(name)

    def created_service(self, name: str, attempt_id: int) -> None:
        """It is there, for this attempt; whoever deletes it meanwhile has it back in the next one."""
        self._service_of_attempt = attempt_id
        self._succeed(name)

    def published_gang(self, fingerprint: str) -> None:
        self._published_gang = fingerprint

    def rejected(self, name: str, rejected: RejectedPod) -> None:
        self._rejected[name] = rejected

    def failures(self, name: str) -> int:
        """How often in a row the object could not be created for now, or nothing at all could."""
        return max(self._failures.get(name, 0), self._vain_rounds - 1)

    def tried_pods(self, *, in_vain: bool) -> None:
        """Some were asked for, and whether none was granted: what is rejected to all is asked for less and less."""
        self._vain_rounds = self._vain_rounds + 1 if in_vain else 0

    def postponed(self, name: str, until: float) -> None:
        self._postponed[name] = until
        self._failures[name] = self._failures.get(name, 0) + 1

    def uncertain(self, name: str) -> None:
        """It may have been created all the same."""
        self._uncertain.add(name)

    def looked(self) -> None:
        self._uncertain.clear()

    def name_taken(self, message: str) -> None:
        self._name_taken = message

    def deletion_requested(self, uid: str, *, force: bool = False) -> None:
        self._deletion_requested.add(uid)
        if force:
            self._forced.add(uid)

    def emptied_attempt(self, config_map_uid: str, continue_token: str) -> None:
        """All pods of it were asked to go, or those before the token."""
        if continue_token:
            self._emptying[config_map_uid] = continue_token
            return
        self._emptying.pop(config_map_uid, None)
        self._collection_deletion_requested.add(config_map_uid)

    def emptying_goes_on_at(self, config_map_uid: str) -> str:
        return self._emptying.get(config_map_uid, "")

    def framework_deletion_requested(self) -> None:
        self._is_framework_deletion_requested = True

    def gone(self, uid: str) -> None:
        """Nothing more has to be known about the object."""
        self._deletion_requested.discard(uid)
        self._forced.discard(uid)
        self._collection_deletion_requested.discard(uid)
        self._emptying.pop(uid, None)

    def stored(self, status: FrameworkStatus) -> None:
        """What the outcomes said is in the status now."""
        self._created.clear()
        self._rejected.clear()
        attempt = status.attempt_status
        if attempt.config_map_uid is not None:
            self._name_taken = ""
            self._succeed(attempt.config_map_name)
        if self._uncertain:
            self._uncertain -= _names_settled(status)

    def _succeed(self, name: str) -> None:
        self._postponed.pop(name, None)
        self._failures.pop(name, None)
        self._uncertain.discard(name)


def _names_settled(status: FrameworkStatus) -> set[str]:
    """Names of pods about which the status leaves no doubt: before an attempt has its ConfigMap, all of them."""
    attempt = status.attempt_status
    return {
        task.attempt_status.pod_name
        for role in attempt.roles
        for task in role.task_statuses
        if attempt.config_map_uid is None or task.attempt_status.pod_uid is not None
    }
