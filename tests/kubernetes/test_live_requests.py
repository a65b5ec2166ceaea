"""What the controller asks of the API server for a Framework, by the server's own audit log.

The documented budget is for pods that come, start and end in three bursts: N + 6 requests where they are kept, N + 9
where they are removed. A real kubelet starts them one by one, and each further burst may cost one status. The audit
log has every change of a pod too, so that this can be held: no status is written that nothing has happened for.
"""

from collections.abc import Iterator

import pytest
from live import object_history, request_counts
from live.clusters import CONTROLLER, Cluster
from live.jobs import FOREVER, framework, role
from live.object_history import History, version_of
from live.place import Place
from live.request_counts import BURSTS, KEPT, REMOVED, Account
from operated.place import completion_of

from conformance.client import Json
from windlass.install import options

RENEWALS = 5


@pytest.fixture
def written(cluster: Cluster, place: Place) -> Iterator[History]:
    """The statuses that the controller wrote: nobody else changes these Frameworks."""
    cluster.breakable()  # only there can the log be read
    with object_history.kept(place.client, place.framework_path()) as history:
        yield history


@pytest.mark.parametrize("completed_pods", ["Keep", "Delete"])
@pytest.mark.parametrize("tasks", [2, 10])
def test_the_budget(
    cluster: Cluster, place: Place, written: History, tasks: int, completed_pods: str
) -> None:
    place.submit(framework("job", role(tasks=tasks), completedPods=completed_pods))
    found = place.wait_for_completed("job")
    assert completion_of(found)["code"] == 0
    account = wait_for_account(cluster, place, written, found)
    print("\n".join(request_counts.lines({place.name: account})))
    assert (account.frameworks, account.attempts, account.pods) == (1, 1, tasks)
    budget = KEPT if completed_pods == "Keep" else REMOVED
    assert account.requests <= tasks + budget + max(0, account.changes - BURSTS), request_counts.line(
        "job", account
    )
    assert account.deleted_pods == 0, "removed one by one"
    assert account.others == (0 if completed_pods == "Keep" else 2)
    assert account.reads == 0
    assert account.refused == 0, "a quiet run has no conflict"
    assert account.events <= 3


def wait_for_account(
    cluster: Cluster, place: Place, written: History, seen: Json, events: int = 0
) -> Account:
    """Complete: the log has every status that the Framework has had, that which was seen included, and so many events.

    A watch tells of a status earlier than the log does. Whoever asks may be told of it earlier than both, and of an
    event earlier than the log.
    """
    accounts_now: list[Account] = []

    def is_complete() -> bool:
        found = request_counts.by_namespace(cluster.audited_in(place.name), CONTROLLER)
        accounts_now[:] = [found.get(place.name, Account())]
        statuses = [event["object"] for event in tuple(written.events) if event["type"] == "MODIFIED"]
        is_seen = any(version_of(each) >= version_of(seen) for each in statuses)
        account = accounts_now[0]
        return is_seen and account.statuses == len(statuses) and account.events >= events

    place.wait_for("the audit log to have every status", is_complete)
    return accounts_now[0]


def test_nothing_but_watches_and_the_lease(cluster: Cluster, place: Place, written: History) -> None:
    """While nothing happens to a job. Other tests have namespaces of their own."""
    uid = place.submit(framework("job", role(tasks=2, script=FOREVER)))["metadata"]["uid"]
    found = place.wait_for_running("job", 2)
    told = len(place.wait_for_events(uid, "AttemptStarted"))
    before = wait_for_account(cluster, place, written, found, told)
    start = len(cluster.audited())

    def renewals() -> int:
        return sum(is_of_lease(entry) for entry in cluster.audited()[start:] if entry["verb"] == "update")

    place.wait_for("the lease to be renewed", lambda: renewals() >= RENEWALS)
    meant = [entry for entry in cluster.audited()[start:] if is_meant(entry, place)]
    assert not [f"{entry['verb']} {entry['requestURI']}" for entry in meant]
    assert wait_for_account(cluster, place, written, found, told) == before


def is_meant(entry: Json, place: Place) -> bool:
    namespace = entry.get("objectRef", {}).get("namespace", "")
    is_elsewhere = namespace not in ("", place.name, options.DEFAULT_NAMESPACE)
    return not (entry["verb"] == "watch" or is_of_lease(entry) or is_elsewhere)


def is_of_lease(entry: Json) -> bool:
    return bool(entry.get("objectRef", {}).get("resource") == "leases")
