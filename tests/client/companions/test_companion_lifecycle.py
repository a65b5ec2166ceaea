"""Companions and their job: creation, ownership, deletion, and updates by the next submission."""

import pytest
from companion_submissions import BOARD, JOB, KINDS, LAB, Submissions

from windlass.client.errors import ObjectNotFoundError
from windlass.model import names

# With the job


def test_companions_are_created_and_deleted_with_the_job(submissions: Submissions) -> None:
    uid = submissions.submit({**BOARD, "jupyter": {}})
    assert set(submissions.everything) == {
        "deployments/digits-tensorboard",
        "services/tensorboard",
        *(f"{kind}/digits-jupyter" for kind in KINDS),
    }
    assert submissions.owners() == {uid}
    assert "digits: started tensorboard" in submissions.messages
    submissions.delete_framework()
    submissions.wait_until_all_gone()


def test_companions_remain_after_completion_until_deletion(submissions: Submissions) -> None:
    submissions.submit(BOARD)
    pod = submissions.pod_of("digits-tensorboard")
    submissions.finish()
    assert submissions.pod_of("digits-tensorboard") == pod
    submissions.client.delete("digits")
    assert not submissions.everything
    assert not submissions.place.pods()


def test_kept_companions_outlive_the_job(submissions: Submissions) -> None:
    submissions.submit({**BOARD, "tensorboard": {"keep": True}, "jupyter": {}, "secrets": {"TOKEN": "x"}})
    submissions.delete_framework()
    submissions.place.wait_for("jupyter to be gone", lambda: not submissions.parts("deployments", "jupyter"))
    assert set(submissions.everything) == {"deployments/digits-tensorboard", "services/tensorboard"}
    secret = submissions.place.path("secrets", "digits-secrets")
    assert submissions.place.client.get(secret).code == 200, "a restarted pod reads it"
    (view,) = submissions.client.companions("digits")
    assert view.is_kept
    submissions.client.delete("digits")
    assert not submissions.everything
    assert submissions.place.client.get(secret).code == 404


def test_job_can_be_deleted_without_its_companions(submissions: Submissions) -> None:
    submissions.submit({**LAB, "secrets": {"TOKEN": "x"}})
    pod = submissions.pod_of("digits-jupyter")
    submissions.client.delete("digits", keep_companions=True)
    submissions.place.wait_until_gone("digits")
    assert submissions.owners() == {""}
    assert submissions.pod_of("digits-jupyter") == pod
    assert submissions.place.client.get(submissions.place.path("secrets", "digits-secrets")).code == 200
    with pytest.raises(
        ObjectNotFoundError, match=r"no job \"digits\" .* Its companions are kept \(jupyter\)"
    ):
        submissions.client.delete("digits", keep_companions=True)
    submissions.client.delete("digits")
    assert not submissions.everything


def test_objects_created_by_a_companion_are_not_changed(submissions: Submissions) -> None:
    """E.g. the pods of the users of a hub."""
    submissions.submit(BOARD)
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "digits-tensorboard",
        "uid": submissions.uid("deployments", "digits-tensorboard"),
    }
    labels = {names.JOB_LABEL: "digits", names.COMPANION_LABEL: "tensorboard"}
    metadata = {"name": "its-own", "labels": labels, "ownerReferences": [owner]}
    spec = {"containers": [{"name": "main", "image": "x"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    submissions.place.client.post(submissions.place.path("pods"), pod).expect(201)
    submissions.client.delete("digits", keep_companions=True)
    assert submissions.place.pods()["its-own"]["metadata"]["ownerReferences"][0]["uid"] == owner["uid"]
    submissions.client.delete("digits")
    assert not submissions.place.pods()


def test_failing_companion_does_not_affect_the_job(submissions: Submissions) -> None:
    submissions.submit({**BOARD, "tensorboard": {"image": "nowhere"}})
    pod = submissions.place.wait_for(
        "a pod",
        lambda: next((pod for name, pod in submissions.place.pods().items() if "tensorboard" in name), None),
    )
    status = {"phase": "Failed", "reason": "Evicted"}
    submissions.place.client.patch(
        submissions.place.path("pods", pod["metadata"]["name"], "status"), {"status": status}
    ).expect(200)
    submissions.finish()


def test_companions_are_independent_of_the_job_state(submissions: Submissions) -> None:
    submissions.submit(BOARD)
    pod = submissions.pod_of("digits-tensorboard")
    submissions.client.scale("digits", worker=2)
    submissions.client.suspend("digits")
    submissions.place.wait_for_condition("digits", "Suspended")
    submissions.client.stop("digits")
    submissions.client.wait("digits")
    assert submissions.pod_of("digits-tensorboard") == pod


# Without the job, and several submissions


def test_existing_companions_are_adopted_by_the_job(submissions: Submissions) -> None:
    both = {**BOARD, "jupyter": {}}
    submissions.start(both)
    assert submissions.owners() == {""}
    (shown,) = [line for line in submissions.messages if "generated password" in line]
    assert shown.startswith("digits: jupyter: generated password (shown once): ")
    before = [submissions.pod_of(f"digits-{name}") for name in ("tensorboard", "jupyter")]
    generations = submissions.generations
    uid = submissions.submit(both)
    assert submissions.owners() == {uid}
    assert [submissions.pod_of(f"digits-{name}") for name in ("tensorboard", "jupyter")] == before
    assert not [line for line in submissions.messages if "generated password" in line]
    told = "the password is unchanged: change a password with `windlass jupyter digits --new-password`"
    assert f"digits: jupyter: {told}" in submissions.messages
    assert submissions.generations == generations


def test_companions_can_be_added_to_a_running_job(submissions: Submissions) -> None:
    uid = submissions.submit(JOB)
    assert submissions.client.companions("digits") == ()
    submissions.start(BOARD)
    assert submissions.owners() == {uid}
    pod = submissions.pod_of("digits-tensorboard")
    submissions.start({**BOARD, "tensorboard": {"keep": True}})
    assert submissions.owners() == {""}, "it is kept from now on"
    assert submissions.pod_of("digits-tensorboard") == pod


def test_rerun_creates_new_companions(submissions: Submissions) -> None:
    first = submissions.submit(LAB)
    pod, secret = submissions.pod_of("digits-jupyter"), submissions.uid("secrets", "digits-jupyter")
    submissions.finish()
    second = submissions.submit(LAB, rerun=True)
    assert first != second
    assert submissions.owners() == {second}
    assert submissions.pod_of("digits-jupyter") != pod
    assert submissions.uid("secrets", "digits-jupyter") != secret
    assert [line for line in submissions.messages if "generated password" in line]


def test_rerun_reuses_kept_companions(submissions: Submissions) -> None:
    kept = {**JOB, "jupyter": {"keep": True}}
    submissions.submit(kept)
    pod = submissions.pod_of("digits-jupyter")
    submissions.finish()
    submissions.submit(kept, rerun=True)
    assert submissions.pod_of("digits-jupyter") == pod
    assert submissions.owners() == {""}


def test_companions_are_updated_from_the_job_file(submissions: Submissions) -> None:
    submissions.start(BOARD)
    pod = submissions.pod_of("digits-tensorboard")
    submissions.start({**BOARD, "tensorboard": {"port": 7007, "name": "board"}})
    (service,) = submissions.parts("services").values()
    assert (service["metadata"]["name"], service["spec"]["ports"][0]["port"]) == ("board", 7007)
    submissions.place.wait_for("another pod", lambda: submissions.pod_of("digits-tensorboard") != pod)


def test_fields_removed_from_the_job_file_are_removed(submissions: Submissions) -> None:
    """E.g. a node selector: no node would match the old and the new labels."""
    placed = {"nodeSelector": {"disk": "ssd"}, "serviceAccount": "trainer", "tolerations": [{"key": "gpu"}]}
    submissions.start({**BOARD, **placed})
    submissions.start({**BOARD, "nodeSelector": {"gpu": "a100"}})
    (deployment,) = submissions.parts("deployments").values()
    pod = deployment["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"gpu": "a100"}
    assert not {"serviceAccountName", "serviceAccount", "tolerations"} & pod.keys()
    before = submissions.generations
    submissions.start({**BOARD, "nodeSelector": {"gpu": "a100"}})
    assert submissions.generations == before, "unchanged objects are not updated"


def test_objects_that_are_no_longer_needed_are_deleted(submissions: Submissions) -> None:
    submissions.start(LAB)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}, "stringData": {"x": "y"}}
    submissions.place.client.post(submissions.place.path("secrets"), secret).expect(201)
    chosen = {"passwordFrom": {"secret": "mine"}, "serviceAccount": "default"}
    submissions.start({**JOB, "jupyter": chosen})
    kinds = {name.partition("/")[0] for name in submissions.everything}
    assert kinds == {"deployments", "services", "configmaps"} & kinds
    assert {"deployments", "services"} <= kinds
    assert submissions.place.client.get(submissions.place.path("secrets", "mine")).code == 200


def test_chosen_password_replaces_the_pod(submissions: Submissions, monkeypatch: pytest.MonkeyPatch) -> None:
    submissions.start(LAB)
    pod = submissions.pod_of("digits-jupyter")
    chosen = {**JOB, "jupyter": {"passwordFrom": {"env": "CHOSEN"}}}
    monkeypatch.setenv("CHOSEN", "open sesame")
    submissions.start(chosen)
    submissions.place.wait_for("another pod", lambda: submissions.pod_of("digits-jupyter") != pod)
    pod = submissions.pod_of("digits-jupyter")
    submissions.start(chosen)
    assert submissions.pod_of("digits-jupyter") == pod, "it is the same password"
    assert "open sesame" not in str(submissions.everything)


def test_removed_secret_of_the_job_is_removed(submissions: Submissions) -> None:
    submissions.start({**BOARD, "secrets": {"TOKEN": "x", "KEY": "y"}})
    submissions.submit({**BOARD, "secrets": {"KEY": "z"}})
    path = submissions.place.path("secrets", "digits-secrets")
    assert submissions.place.client.get(path).expect(200).body["data"] == {"KEY": "eg=="}
