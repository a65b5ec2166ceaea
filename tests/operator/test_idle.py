"""A controller whose jobs run without an event asks for nothing: it watches, and it keeps its lease."""

from operated.controllers import Controller
from operated.jobs import FOREVER, framework, role
from operated.place import Place
from operated.proxy import ProxiedRequest

FRAMEWORKS = 20
RENEWALS = 5


def test_idle_controller_only_watches_and_renews_the_lease(place: Place, controller: Controller) -> None:
    uids = [
        place.submit(framework(f"job-{number}", role(tasks=2, life=FOREVER)))["metadata"]["uid"]
        for number in range(FRAMEWORKS)
    ]
    for number, uid in enumerate(uids):
        place.wait_for_running(f"job-{number}", 2)
        place.wait_for_events(uid, "AttemptStarted")
    proxy = controller.proxy
    start = len(proxy.exchanges)

    def renewals() -> int:
        return sum(each.asked.is_of_lease for each in tuple(proxy.exchanges)[start:])

    place.world.wait_for("the lease to be renewed", lambda: renewals() >= RENEWALS)
    asked = [each.asked for each in tuple(proxy.exchanges)[start:]]
    assert not [str(each) for each in asked if _is_meant(each, place)]


def _is_meant(asked: ProxiedRequest, place: Place) -> bool:
    """The namespaces of other tests may still be terminating."""
    is_elsewhere = "/namespaces/" in asked.path and f"/namespaces/{place.name}/" not in asked.path
    return not (asked.is_watch or asked.is_of_lease or is_elsewhere)
