"""The embedded cluster keeps the logs of deleted pods, and serves them by the UID of the pod."""

import pytest
from pods.daemons import Daemon
from pods.levels import Level

from conformance.waiting import wait_for


@pytest.fixture
def level(best: Level) -> Level:
    return best


def test_log_of_a_deleted_pod_is_readable_by_its_uid_in_its_namespace_only(lasting: Daemon) -> None:
    place, other = lasting.new_place(), lasting.new_place()
    pod = place.start("echo hello")
    assert pod.output() == ["hello"]
    uid = place.client.get(place.path("pods", pod.name)).expect(200).body["metadata"]["uid"]
    log = place.path("pods", pod.name, "log")
    place.client.delete(place.path("pods", pod.name), gracePeriodSeconds="0").expect(200)
    wait_for("the log to be archived", lambda: place.client.get(log, uid=uid).code == 200)
    assert place.client.get(log).code == 404, "without its UID, the pod does not exist"
    assert place.client.get(log, uid=uid).raw == b"hello\n"
    assert place.client.get(other.path("pods", pod.name, "log"), uid=uid).code == 404
    assert place.client.get(place.path("pods", "another", "log"), uid=uid).code == 404
    assert place.client.get(log, uid=uid, container="sidecar").code == 400
    lasting.kill()
    lasting.start()
    place.client = lasting.client
    wait_for("the kubelet to start", lambda: place.client.get(log, uid=uid).code == 200)
    assert place.client.get(log, uid=uid, tailLines="1").raw == b"hello\n"
    place.client.delete(f"/api/v1/namespaces/{place.namespace}").expect(200)
    wait_for(
        "the log to be deleted with its namespace", lambda: not list((lasting.data / "pod-logs").iterdir())
    )
