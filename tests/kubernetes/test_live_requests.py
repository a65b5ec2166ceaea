"""The controller's requests per Framework, by the audit log of the API server.

The documented budget is for pods that are created, start and end in three bursts: N + 6 requests with kept pods, N + 9
with removal. A real kubelet starts them one by one, and each further burst may cost one status write. The audit log
also has the changes of pods, so the test can check that every status write has a cause.
"""

from collections.abc import Iterator

import msgspec
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
    """Return the status writes of the controller: no other client changes these Frameworks."""
    cluster.breakable()  # only there is the log readable
    with object_history.kept(place.client, place.framework_path()) as history:
        yield history


@pytest.mark.parametrize("completed_pods", ["Keep", "Delete"])
@pytest.mark.parametrize("tasks", [2, 10])
def test_requests_stay_within_the_budget(
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
    """Wait until the log has every observed status and event of the Framework.

    A watch may be ahead of the log, and a response ahead of both.
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


def test_idle_job_costs_only_watches_and_the_lease(cluster: Cluster, place: Place, written: History) -> None:
    """Other tests have their own namespaces."""
    uid = place.submit(framework("job", role(tasks=2, script=FOREVER)))["metadata"]["uid"]
    found = place.wait_for_running("job", 2)
    events = len(place.wait_for_events(uid, "AttemptStarted"))
    before = wait_for_account(cluster, place, written, found, events)
    start = len(cluster.audited())

    def renewals() -> int:
        return sum(is_of_lease(entry) for entry in cluster.audited()[start:] if entry["verb"] == "update")

    place.wait_for("the lease to be renewed", lambda: renewals() >= RENEWALS)
    requests = [entry for entry in cluster.audited()[start:] if is_request_for_the_job(entry, place)]
    assert not [f"{entry['verb']} {entry['requestURI']}" for entry in requests]
    after = wait_for_account(cluster, place, written, found, events)
    # The kubelet may still write the status of a pod, which the controller does not have to store.
    assert msgspec.structs.replace(after, changes=0) == msgspec.structs.replace(before, changes=0)


def is_request_for_the_job(entry: Json, place: Place) -> bool:
    namespace = entry.get("objectRef", {}).get("namespace", "")
    is_elsewhere = namespace not in ("", place.name, options.DEFAULT_NAMESPACE)
    return not (entry["verb"] == "watch" or is_of_lease(entry) or is_elsewhere)


def is_of_lease(entry: Json) -> bool:
    return bool(entry.get("objectRef", {}).get("resource") == "leases")
