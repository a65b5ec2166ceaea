"""The outcomes of the actions for one Framework, until the cached objects or the stored status show them."""

from datetime import datetime, timedelta

from windlass.decide.types import CreatedPod, Outcomes, RejectedPod
from windlass.model.status import FrameworkStatus


class Expectations:
    def __init__(self, framework_uid: str) -> None:
        self.framework_uid = framework_uid
        self._created: dict[str, CreatedPod] = {}
        self.rejected: dict[str, RejectedPod] = {}
        self._postponed: dict[str, float] = {}
        """The monotonic time of the next creation, by object name."""
        self._failures: dict[str, int] = {}
        self._failed_batches = 0
        self.uncertain: set[str] = set()
        """Names of pods that may exist: their creation had no usable answer, or the name was in use."""
        self.name_taken_message = ""
        self._deletion_requested: set[str] = set()
        self._forced: set[str] = set()
        self._collection_deletion_requested: set[str] = set()
        self._continue_tokens: dict[str, str] = {}
        """Continue tokens of attempts of which only some pods have been deleted, by the UID of the ConfigMap."""
        self.is_framework_deletion_requested = False
        self._attempt_with_service = -1
        self.recorded_attempt = -1
        self.published_gang = ""

    def outcomes(self, now: datetime, monotonic: float) -> Outcomes:
        """Return a view that is valid until the next change."""
        return Outcomes(
            created=self._created,
            rejected=self.rejected,
            postponed={
                name: now + timedelta(seconds=until - monotonic) for name, until in self._postponed.items()
            },
            uncertain=self.uncertain,
            name_taken_message=self.name_taken_message,
            deletion_requested=self._deletion_requested,
            forced=self._forced,
            collection_deletion_requested=self._collection_deletion_requested,
            is_framework_deletion_requested=self.is_framework_deletion_requested,
            attempt_with_service=self._attempt_with_service,
            recorded_attempt=self.recorded_attempt,
            published_gang=self.published_gang,
        )

    def record_creation(self, name: str, created: CreatedPod | None = None) -> None:
        """Record that the object was created; for a pod also the task attempt that it belongs to."""
        if created is not None:
            self._created[name] = created
        self._record_success(name)

    def record_service(self, name: str, attempt_id: int) -> None:
        """Record that the Service exists for this attempt. If it is deleted, the next attempt creates it again."""
        self._attempt_with_service = attempt_id
        self._record_success(name)

    def record_attempt_record(self, name: str, attempt_id: int) -> None:
        """Record that the record of the attempt is written, or is not going to be written."""
        self.recorded_attempt = attempt_id
        self._record_success(name)

    def failures(self, name: str) -> int:
        """Return how often creating the object, or all pods of a batch, failed in a row before the current failure."""
        return max(self._failures.get(name, 0), self._failed_batches - 1)

    def record_batch(self, *, has_failed: bool) -> None:
        """Record whether creating a batch of pods failed temporarily for every pod: if so, all of them back off."""
        self._failed_batches = self._failed_batches + 1 if has_failed else 0

    def postpone(self, name: str, until: float) -> None:
        self._postponed[name] = until
        self._failures[name] = self._failures.get(name, 0) + 1

    def record_deletion(self, uid: str, *, force: bool = False) -> None:
        self._deletion_requested.add(uid)
        if force:
            self._forced.add(uid)

    def record_attempt_deletion(self, config_map_uid: str, continue_token: str) -> None:
        """Record that all pods of the attempt were deleted, or those before the continue token."""
        if continue_token:
            self._continue_tokens[config_map_uid] = continue_token
            return
        self._continue_tokens.pop(config_map_uid, None)
        self._collection_deletion_requested.add(config_map_uid)

    def continue_token(self, config_map_uid: str) -> str:
        return self._continue_tokens.get(config_map_uid, "")

    def forget(self, uid: str) -> None:
        """Forget a deleted object."""
        self._deletion_requested.discard(uid)
        self._forced.discard(uid)
        self._collection_deletion_requested.discard(uid)
        self._continue_tokens.pop(uid, None)

    def record_stored(self, status: FrameworkStatus) -> None:
        """Forget the outcomes that the stored status contains."""
        self._created.clear()
        self.rejected.clear()
        attempt = status.attempt_status
        if attempt.config_map_uid is None:
            self.uncertain.clear()  # The attempt has no pods yet.
        else:
            self.name_taken_message = ""
            self._record_success(attempt.config_map_name)

    def _record_success(self, name: str) -> None:
        self._postponed.pop(name, None)
        self._failures.pop(name, None)
        self.uncertain.discard(name)
