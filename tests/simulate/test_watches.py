"""Lists and watches of the simulated API server, requested by the real Reflector."""

from random import Random

import builders
import pytest

from windlass.kubeapi import reflector
from windlass.kubeapi.errors import ExpiredError
from windlass.kubeapi.reflector import Listed, Reflector, ResourceEvent
from windlass.kubeapi.resources import frameworks
from windlass.model import names
from windlass.simulate import play
from windlass.simulate.api_server import ApiServer, Propagation
from windlass.simulate.machines import Machine
from windlass.simulate.scenario import QUIET, Event, EventType, Faults, Occurrence, Scenario, Submission
from windlass.simulate.virtual_time import Task, Timeline
from windlass.simulate.watches import BOOKMARK_SEC, History, Source

GROUP, OTHER_GROUP = names.GROUPS


class Reflected:
    """A Reflector of Frameworks, with two of them per page, and the names that it reported."""

    def __init__(self) -> None:
        self._timeline = Timeline(builders.NOW)
        self.server = ApiServer(self._timeline, Random(1))
        self.history = History(self.server)
        machine = Machine(self._timeline, self.server, Random(2), lambda: QUIET)
        self._source = Source(self.history, frameworks(GROUP), machine)
        self.events: list[str] = []
        following = Reflector(
            self._source,
            frameworks(GROUP),
            receive=self._receive,
            page_size=2,
            randomness=lambda: 0.5,
            sleep=machine.sleep,
            clock=machine.clock.monotonic,
        )
        self.task = Task(following.run())

    def _receive(self, event: ResourceEvent) -> None:
        match event:
            case Listed(items, _):
                listed = " ".join(self._source.object_of(item).metadata.name for item in items)
                self.events.append(f"= {listed}".strip())
            case reflector.Changed(body):
                self.events.append(f"+ {self._source.object_of(body).metadata.name}")
            case reflector.Deleted(body):
                self.events.append(f"- {self._source.object_of(body).metadata.name}")

    def create(self, *created: str) -> None:
        for name in created:
            self.server.create_framework(builders.framework(name, group=GROUP))

    def delete(self, name: str) -> None:
        found = next(each for each in self.server.frameworks.values() if each.name == name)
        self.server.delete_framework(found, Propagation.BACKGROUND)

    def run(self, seconds: float) -> list[str]:
        """Run for `seconds`. Return what was reported meanwhile."""
        self.events.clear()
        self._timeline.after(seconds, lambda: None)
        end = self._timeline.now.timestamp() + seconds
        while self._timeline.now.timestamp() < end:
            self._timeline.step()
        return list(self.events)

    def run_until_first_page(self) -> None:
        while not self.history._lists:
            self._timeline.step()


@pytest.fixture
def reflected() -> Reflected:
    return Reflected()


def test_pages_are_one_consistent_list_and_the_watch_continues_from_it(reflected: Reflected) -> None:
    reflected.create("a", "b", "c", "d", "e")
    reflected.task.start()
    reflected.run_until_first_page()
    reflected.create("f")
    reflected.delete("d")
    assert reflected.run(1) == ["= a b c d e", "+ f", "- d"]


def test_expired_continue_token_leads_to_a_list_in_one_page(reflected: Reflected) -> None:
    reflected.create("a", "b", "c")
    reflected.task.start()
    reflected.run_until_first_page()
    reflected.delete("a")
    reflected.history.compact()
    assert reflected.run(1) == ["= b c"]
    assert reflected.server.occurred == {Occurrence.LIST_EXPIRED}


def test_watch_that_ends_is_continued(reflected: Reflected) -> None:
    reflected.create("a")
    reflected.task.start()
    assert reflected.run(1) == ["= a"]
    reflected.history.close_watches()
    reflected.create("b")
    assert reflected.run(10) == ["+ b"]


def test_watch_of_an_expired_version_is_replaced_by_a_list(reflected: Reflected) -> None:
    reflected.create("a")
    reflected.task.start()
    assert reflected.run(1) == ["= a"]
    reflected.history.close_watches()
    reflected.create("b")
    reflected.delete("a")
    reflected.history.compact()
    assert reflected.run(10) == ["= b"]
    assert reflected.server.occurred == {Occurrence.WATCH_EXPIRED}


def test_watch_continues_from_a_bookmark_that_is_newer_than_its_last_event(reflected: Reflected) -> None:
    reflected.create("a")
    reflected.task.start()
    assert reflected.run(1) == ["= a"]
    # The version increases without an event of this Reflector.
    reflected.server.create_framework(builders.framework("other", group=OTHER_GROUP))
    assert reflected.run(BOOKMARK_SEC) == []
    reflected.history.compact()
    reflected.history.close_watches()
    reflected.create("b")
    assert reflected.run(10) == ["+ b"]
    assert reflected.server.occurred == {Occurrence.RESUMED_FROM_BOOKMARK}


def watches_expired(seed: int) -> Scenario:
    """Expire and close all watches while a job runs."""
    job = builders.framework("job", builders.role("worker", 3))
    events = tuple(Event(at, EventType.RELIST) for at in (7, 9, 11))
    faults = Faults(watch_delay=0.5, expired=0.5, duration=20)
    return Scenario(seed, (Submission(6, job),), events, faults=faults, faults_end=60)


def _retry_expired(error: object, failures: int) -> bool:
    """Continue the watch although its version has expired."""
    return False


_page = Reflector._page


async def _end_expired_list(broken: Reflector, size: int) -> Listed:
    """Return the objects before the page that could not be listed."""
    items: list[object] = []
    page = await _page(broken, size, "")
    while True:
        items += page.objects
        if not page.metadata.continue_:
            break
        try:
            page = await _page(broken, size, page.metadata.continue_)
        except ExpiredError:
            break
    return Listed(items, page.metadata.resource_version)  # type: ignore[arg-type]


def test_expired_watches_lose_nothing() -> None:
    for seed in range(20):
        assert play.failure_of(watches_expired(seed)) is None, seed


def test_planted_reflector_that_ignores_expired_watches_violates_an_invariant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reflector, "must_relist", _retry_expired)
    assert play.failure_of(watches_expired(1)) is not None


def test_planted_reflector_that_ignores_expired_pages_violates_an_invariant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Reflector, "_pages", _end_expired_list)
    assert any(play.failure_of(watches_expired(seed)) is not None for seed in range(100))
