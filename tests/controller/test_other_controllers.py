"""Detection of other controllers that write the same statuses (A8)."""

from collections.abc import Callable, Sequence
from datetime import datetime

import builders
import msgspec
import pytest
from builders import NOW, at

from windlass.controller.engine.cache import Cache
from windlass.controller.engine.keys import key_of
from windlass.controller.other_controllers import OtherControllers
from windlass.decide import decide, initial_status
from windlass.model.framework import Framework
from windlass.model.status import ConditionType, FrameworkStatus
from windlass.wire.codec import StatusWriter

OURS = "windlass-system"
REFERENCE = "frameworkcontroller"


def wrote(manager: str, seconds: float | None) -> StatusWriter:
    return StatusWriter(manager, None if seconds is None else at(seconds), "Update")


@pytest.mark.parametrize(
    ("at_first", "later", "rival"),
    [
        pytest.param([], [], "", id="nobody"),
        pytest.param([wrote(OURS, 1)], [wrote(OURS, 9)], "", id="ourselves"),
        pytest.param([wrote(REFERENCE, 1)], [wrote(REFERENCE, 1)], "", id="one that was here before"),
        pytest.param([wrote(REFERENCE, 1)], [wrote(REFERENCE, 2)], REFERENCE, id="one that writes again"),
        pytest.param([], [wrote(REFERENCE, 2)], REFERENCE, id="one that shows up"),
        pytest.param([wrote(OURS, 1)], [wrote(OURS, 9), wrote("other", 5)], "other", id="one beside us"),
        pytest.param([wrote(REFERENCE, 1)], [], "", id="one whose traces we have written over"),
        pytest.param([wrote(REFERENCE, 9)], [wrote(REFERENCE, 3)], "", id="a time that steps back"),
        pytest.param([wrote(REFERENCE, None)], [wrote(REFERENCE, 3)], REFERENCE, id="a time at last"),
        pytest.param([], [wrote(REFERENCE, None)], "", id="never a time"),
        pytest.param([], [wrote("kubectl-edit", 3), wrote("kubectl", 4)], "", id="people"),
        pytest.param([], [wrote("windlass-elsewhere", 3)], "windlass-elsewhere", id="another installation"),
    ],
)
def test_other_controller_is_detected_by_a_later_write(
    at_first: Sequence[StatusWriter], later: Sequence[StatusWriter], rival: str
) -> None:
    rivals = OtherControllers(OURS)
    assert rivals.detect("uid", at_first) == "", "another controller that wrote earlier may have stopped"
    assert rivals.detect("uid", later) == rival


def test_detection_is_per_framework() -> None:
    rivals = OtherControllers(OURS)
    rivals.detect("a", [wrote(REFERENCE, 1)])
    assert rivals.detect("b", [wrote(REFERENCE, 2)]) == ""
    assert rivals.detect("a", [wrote(REFERENCE, 2)]) == REFERENCE


def test_forgotten_framework_starts_again() -> None:
    rivals = OtherControllers(OURS)
    rivals.detect("a", [wrote(REFERENCE, 1)])
    rivals.forget("a")
    rivals.forget("never-seen")
    assert rivals.detect("a", [wrote(REFERENCE, 2)]) == ""


# Two of them at one Framework


class Status:
    """A Framework on a server that records managedFields."""

    def __init__(self) -> None:
        made = builders.framework("job", resource_version="1")
        self.framework = made.with_status(initial_status.framework_status(made, NOW))
        self.seconds = 0
        self.writers: dict[str, StatusWriter] = {}

    @property
    def now(self) -> datetime:
        return at(self.seconds)

    def write(self, status: FrameworkStatus | None, by: str) -> Framework:
        self.seconds += 1
        self.writers[by] = wrote(by, self.seconds)
        stored = msgspec.structs.replace(self.framework, status=status)
        metadata = msgspec.structs.replace(stored.metadata, resource_version=str(self.seconds + 1))
        self.framework = msgspec.structs.replace(stored, metadata=metadata)
        return self.framework


class Installation:
    def __init__(self, name: str, place: Status) -> None:
        self.name = name
        self.stores = 0
        self._place = place
        self._cache = Cache()
        self._rivals = OtherControllers(name)

    def look(self) -> None:
        """As a watch shows it."""
        found = self._place.framework
        self._cache.put_framework(found)
        if rival := self._rivals.detect(found.uid, self._place.writers.values()):
            self._cache.set_other_controller(key_of(found), rival)

    def act(self) -> None:
        """Decide, and store if that changes something."""
        self.look()
        found = self._place.framework
        decision = decide(found, self._cache.observe(key_of(found), self._place.now, 0.0), self._place.now)
        if decision.status == found.status:
            return
        self.stores += 1
        assert self._cache.record_stored(self._place.write(decision.status, self.name))


def _wiped(status: FrameworkStatus | None) -> FrameworkStatus | None:
    return status and msgspec.structs.replace(status, conditions=())


def test_two_installations_stop_writing() -> None:
    place = Status()
    one, other = Installation("windlass-one", place), Installation("windlass-other", place)
    one.look()
    other.look()
    one.act()
    begun = one.stores
    for _ in range(10):
        other.act()
        one.act()
    assert begun == 1, "it has begun to work"
    assert one.stores - begun + other.stores == 1, "only one of the controllers stores it"
    assert place.framework.status is not None
    said = place.framework.status.condition(ConditionType.OTHER_CONTROLLER)
    assert said is not None
    assert said.is_true


@pytest.mark.parametrize("rewritten", [_wiped, lambda _: None], ids=["the conditions", "all of it"])
def test_other_controller_that_resets_the_status_is_reported_once(
    rewritten: Callable[[FrameworkStatus | None], FrameworkStatus | None],
) -> None:
    place = Status()
    ours = Installation(OURS, place)
    ours.act()
    place.write(_wiped(place.framework.status), REFERENCE)
    before = ours.stores
    for _ in range(10):
        ours.act()
        place.write(rewritten(place.framework.status), REFERENCE)
    assert ours.stores == before + 1
