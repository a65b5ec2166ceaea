"""JobSet: the job file, and what becomes of Jobs that fail, against the JobSet controller 0.12."""

from typing import Any

import msgspec
import pytest
import yaml
from tests.convert.outcomes import Play, convert, framework, play, rendered

from windlass.convert.conversion import NoteKind
from windlass.model.base import Json
from windlass.objects import pod as pods

CONTAINER = {"name": "main", "image": "example.org/train:1", "command": ["train"]}


def replicated(
    name: str, spec: str = "", replicas: int = 1, restart_policy: str = "Never", **fields: Any
) -> Json:
    """Return a replicated job. `spec` is that of its Jobs, in YAML flow style."""
    template = {"spec": {"restartPolicy": restart_policy, "containers": [CONTAINER]}}
    return {
        "name": name,
        "replicas": replicas,
        "template": {"spec": {"backoffLimit": 0, **yaml.safe_load(f"{{{spec}}}"), "template": template}},
        **fields,
    }


def jobset(*jobs: Json, spec: str = "", annotations: Json | None = None) -> str:
    body = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "digits", "annotations": annotations or {}},
        "spec": {**yaml.safe_load(f"{{{spec}}}"), "replicatedJobs": list(jobs)},
    }
    return yaml.safe_dump(body)


TWO = "completions: 2, parallelism: 2"
LEADER, WORKERS = replicated("leader"), replicated("workers", TWO, replicas=2)


def fail_job(codes: str) -> str:
    """Return a podFailurePolicy by which these exit codes fail a Job."""
    return f"podFailurePolicy: {{rules: [{{action: FailJob, onExitCodes: {{operator: In, values: [{codes}]}}}}]}}"


def rule_names(text: str) -> list[str]:
    return [rule["name"] for rule in rendered(text)["spec"].get("completionPolicies", [])]


# Outcomes: a restart creates all pods again


@pytest.mark.parametrize(
    ("text", "steps", "expected"),
    [
        pytest.param(
            jobset(LEADER, WORKERS),
            ["exit 0 leader-0", *(f"exit 0 workers-{index}" for index in range(4))],
            ("Succeeded", 0, {"leader": 1, "workers": 4}),
            id="all Jobs complete",
        ),
        pytest.param(
            jobset(LEADER, WORKERS),
            ["exit 1 workers-3"],
            ("Failed", 0, {"leader": 1, "workers": 4}),
            id="no failurePolicy: the first failed Job fails the JobSet",
        ),
        pytest.param(
            jobset(replicated("workers", f"{TWO}, backoffLimit: 1", replicas=2)),
            ["exit 1 workers-0", "exit 1 workers-2"],
            ("Active", 0, {"workers": 4}),
            id="backoffLimit counts the pods of one Job",
        ),
        pytest.param(
            jobset(replicated("workers", f"{TWO}, backoffLimit: 1", replicas=2)),
            ["exit 1 workers-2", "exit 1 workers-3"],
            ("Failed", 0, {"workers": 4}),
            id="backoffLimit of the second Job",
        ),
        pytest.param(
            jobset(LEADER, WORKERS, spec="failurePolicy: {maxRestarts: 1}"),
            ["exit 1 leader-0"],
            ("Active", 1, {"leader": 2, "workers": 8}),
            id="a restart of all Jobs",
        ),
        pytest.param(
            jobset(LEADER, WORKERS, spec="failurePolicy: {maxRestarts: 1}"),
            ["exit 0 leader-0", "exit 1 workers-0", "exit 1 workers-1"],
            ("Failed", 1, {"leader": 2, "workers": 8}),
            id="maxRestarts reached",
        ),
        pytest.param(
            jobset(
                LEADER,
                WORKERS,
                spec="failurePolicy: {maxRestarts: 3, rules: [{action: FailJobSet, targetReplicatedJobs: [leader]}]}",
            ),
            ["exit 1 workers-0", "exit 1 leader-0"],
            ("Failed", 1, {"leader": 2, "workers": 8}),
            id="FailJobSet for one replicated job",
        ),
        pytest.param(
            jobset(
                LEADER, spec="failurePolicy: {maxRestarts: 0, rules: [{action: RestartJobSetAndIgnoreMaxRestarts}]}"
            ),
            ["exit 1 leader-0"] * 12 + ["exit 0 leader-0"],
            ("Succeeded", 12, {"leader": 13}),
            id="RestartJobSetAndIgnoreMaxRestarts",
        ),
        pytest.param(
            jobset(
                replicated("leader", fail_job("9")),
                spec="failurePolicy: {maxRestarts: 1, rules: [{action: RestartJobSetAndIgnoreMaxRestarts, "
                "onJobFailureReasons: [PodFailurePolicy]}, {action: RestartJobSet}]}",
            ),
            ["exit 9 leader-0", "exit 9 leader-0", "exit 1 leader-0", "exit 1 leader-0"],
            ("Failed", 3, {"leader": 4}),
            id="onJobFailureReasons",
        ),
        pytest.param(
            jobset(
                replicated("leader", fail_job("9")),
                spec="failurePolicy: {maxRestarts: 5, rules: [{action: FailJobSet, "
                "onJobFailureMessagePatterns: ['exit code 9 ']}]}",
            ),
            ["exit 1 leader-0", "exit 9 leader-0"],
            ("Failed", 1, {"leader": 2}),
            id="onJobFailureMessagePatterns",
        ),
        pytest.param(
            jobset(
                LEADER,
                spec="failurePolicy: {maxRestarts: 5, rules: [{action: FailJobSet, "
                "onJobFailureMessagePatterns: [deadline]}]}",
            ),
            ["exit 1 leader-0"],
            ("Active", 1, {"leader": 2}),
            id="a pattern that does not match",
        ),
        pytest.param(
            jobset(LEADER, WORKERS, spec="successPolicy: {operator: All, targetReplicatedJobs: [leader]}"),
            ["exit 0 leader-0"],
            ("Succeeded", 0, {"leader": 1, "workers": 4}),
            id="successPolicy All",
        ),
        pytest.param(
            jobset(LEADER, WORKERS, spec="successPolicy: {operator: All, targetReplicatedJobs: [workers]}"),
            [f"exit 0 workers-{index}" for index in range(3)],
            ("Active", 0, {"leader": 1, "workers": 4}),
            id="successPolicy All needs every Job",
        ),
        pytest.param(
            jobset(LEADER, WORKERS, spec="successPolicy: {operator: Any, targetReplicatedJobs: [workers]}"),
            ["exit 0 workers-1", "exit 0 workers-2"],
            ("Active", 0, {"leader": 1, "workers": 4}),
            id="successPolicy Any: one pod of each Job",
        ),
        pytest.param(
            jobset(LEADER, WORKERS, spec="successPolicy: {operator: Any, targetReplicatedJobs: [workers]}"),
            ["exit 0 workers-3", "exit 0 workers-2"],
            ("Succeeded", 0, {"leader": 1, "workers": 4}),
            id="successPolicy Any: all pods of one Job",
        ),
        pytest.param(
            jobset(
                replicated(
                    "workers", "completions: 3, parallelism: 3, successPolicy: {rules: [{succeededIndexes: '1'}]}", 2
                ),
                spec="successPolicy: {operator: Any}",
            ),
            ["exit 0 workers-0", "exit 0 workers-4"],
            ("Succeeded", 0, {"workers": 6}),
            id="successPolicy of the second Job",
        ),
        pytest.param(
            jobset(replicated("workers", "completions: 2, backoffLimitPerIndex: 0, backoffLimit: 5", replicas=2)),
            ["exit 1 workers0-0", "exit 0 workers1-0", "exit 0 workers1-1"],
            ("Active", 0, {"workers0": 2, "workers1": 2}),
            id="a role per Job, each with one pod at a time",
        ),
        pytest.param(
            jobset(replicated("workers", "completions: 2, backoffLimitPerIndex: 0, backoffLimit: 5", replicas=2)),
            ["exit 1 workers0-0", "exit 0 workers0-1"],
            ("Failed", 0, {"workers0": 2, "workers1": 1}),
            id="failed indexes of one of these Jobs",
        ),
        pytest.param(
            jobset(replicated("leader", "backoffLimit: 2", restart_policy="OnFailure")),
            ["restart leader-0", "restart leader-0"],
            ("Failed", 0, {"leader": 1}),
            id="restarts of containers",
        ),
    ],
)  # fmt: skip
def test_outcome_is_that_of_the_jobset_controller(
    text: str, steps: list[str], expected: tuple[str, int, dict[str, int]]
) -> None:
    found = play(text, *steps)
    assert (found.verdict, found.restarts, found.pods) == expected


def test_all_jobs_restart_without_a_delay() -> None:
    retries = rendered(jobset(LEADER, spec="failurePolicy: {maxRestarts: 4}"))["spec"]["retryPolicy"]
    assert retries == {"fancyRetryPolicy": True, "maxRetryCount": 4}


def test_job_that_fails_for_two_reasons_has_the_one_of_the_job_controller() -> None:
    """backoffLimit 0 is exceeded by the failure that podFailurePolicy matches too."""
    text = jobset(
        replicated("leader", fail_job("9")),
        spec="failurePolicy: {maxRestarts: 1, rules: [{action: FailJobSet, onJobFailureReasons: "
        "[BackoffLimitExceeded]}, {action: RestartJobSet}]}",
    )
    assert play(text, "exit 9 leader-0").verdict == "Active"
    assert play(text, "exit 1 leader-0").verdict == "Failed"


# Start order


@pytest.mark.parametrize(
    ("text", "steps", "created"),
    [
        pytest.param(
            jobset(LEADER, WORKERS, spec="startupPolicy: {startupPolicyOrder: InOrder}"),
            [],
            {"leader": 1},
            id="InOrder: the second one waits",
        ),
        pytest.param(
            jobset(LEADER, WORKERS, spec="startupPolicy: {startupPolicyOrder: InOrder}"),
            ["ready leader-0"],
            {"leader": 1, "workers": 4},
            id="InOrder: the first one is ready",
        ),
        pytest.param(
            jobset(LEADER, WORKERS, spec="startupPolicy: {startupPolicyOrder: AnyOrder}"),
            [],
            {"leader": 1, "workers": 4},
            id="AnyOrder",
        ),
        pytest.param(
            jobset(LEADER, {**WORKERS, "dependsOn": [{"name": "leader", "status": "Complete"}]}),
            ["ready leader-0"],
            {"leader": 1},
            id="dependsOn Complete: ready is not enough",
        ),
        pytest.param(
            jobset(LEADER, {**WORKERS, "dependsOn": [{"name": "leader", "status": "Complete"}]}),
            ["exit 0 leader-0"],
            {"leader": 1, "workers": 4},
            id="dependsOn Complete",
        ),
        pytest.param(
            jobset(
                replicated("first"),
                replicated("second"),
                replicated("third", dependsOn=[{"name": name, "status": "Ready"} for name in ("first", "second")]),
            ),
            ["ready first-0"],
            {"first": 1, "second": 1},
            id="dependsOn several",
        ),
        pytest.param(
            jobset(
                replicated("leader", "completions: 3, parallelism: 1"),
                {**WORKERS, "dependsOn": [{"name": "leader", "status": "Ready"}]},
            ),
            ["ready leader-0"],
            {"leader": 1, "workers": 4},
            id="dependsOn Ready: as many pods as may run at a time",
        ),
    ],
)  # fmt: skip
def test_replicated_jobs_start_in_order(text: str, steps: list[str], created: dict[str, int]) -> None:
    assert Play(text).run(*steps).pods == created


def test_order_starts_again_after_a_restart() -> None:
    text = jobset(
        LEADER,
        WORKERS,
        spec="startupPolicy: {startupPolicyOrder: InOrder}, failurePolicy: {maxRestarts: 1}",
    )
    assert play(text, "ready leader-0", "exit 1 workers-0").pods == {"leader": 2, "workers": 4}


# Pods


def pod_of(text: str, role: str, index: int) -> Json:
    """Return a pod as the controller creates it."""
    world = Play(text).world
    return pods.pod(world.framework, role, index)


def test_pods_get_labels_host_names_and_index_of_the_original() -> None:
    text = jobset(
        LEADER, {**WORKERS, "groupName": "training"}, replicated("tests", replicas=2, groupName="training")
    )
    pod = pod_of(text, "workers", 3)
    prefix = "jobset.sigs.k8s.io/"
    own = {
        key.removeprefix(prefix): value
        for key, value in pod["metadata"]["labels"].items()
        if key.startswith(prefix)
    }
    assert own == {
        "jobset-name": "digits",
        "replicatedjob-name": "workers",
        "restart-attempt": "0",
        "replicatedjob-replicas": "2",
        "global-replicas": "5",
        "job-index": "1",
        "job-global-index": "2",
        "group-name": "training",
        "group-replicas": "4",
        "job-group-index": "1",
    }
    annotations = pod["metadata"]["annotations"]
    assert {
        key.removeprefix(prefix): annotations[key] for key in annotations if key.startswith(prefix)
    } == own
    assert pod["metadata"]["labels"]["job-name"] == "digits-workers-1"
    assert annotations["batch.kubernetes.io/job-completion-index"] == "1"
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("digits-workers-1-1", "digits")
    variables = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
    assert variables["JOB_COMPLETION_INDEX"] == "1"
    last = pod_of(text, "tests", 1)["metadata"]["labels"]
    assert (last[f"{prefix}job-global-index"], last[f"{prefix}job-group-index"]) == ("4", "3")


def test_pods_of_a_role_per_job_have_the_indexes_of_the_original() -> None:
    text = jobset(LEADER, replicated("data-prep", "completions: 3", replicas=2))
    pod = pod_of(text, "dataprep1", 0)
    labels = pod["metadata"]["labels"]
    assert labels["jobset.sigs.k8s.io/job-index"] == "1"
    assert labels["jobset.sigs.k8s.io/job-global-index"] == "2"
    assert labels["jobset.sigs.k8s.io/replicatedjob-replicas"] == "2"
    assert labels["jobset.sigs.k8s.io/global-replicas"] == "3"
    assert pod["spec"]["hostname"] == "digits-data-prep-1-0"


def test_restart_attempt_counts_restarts() -> None:
    played = Play(jobset(LEADER, spec="failurePolicy: {maxRestarts: 2}"))
    played.run("exit 1 leader-0")
    labels = pods.pod(played.world.framework, "leader", 0)["metadata"]["labels"]
    assert labels["jobset.sigs.k8s.io/restart-attempt"] == "1"


def test_names_with_hyphens_are_kept_in_an_annotation() -> None:
    found = rendered(jobset(replicated("data-prep")))
    assert [role["name"] for role in found["spec"]["taskRoles"]] == ["dataprep"]
    assert found["metadata"]["annotations"]["windlass.dev/original-roles"] == "dataprep=data-prep"


def test_pods_restart_their_containers_unless_the_template_says_otherwise() -> None:
    job = replicated("leader")
    del job["template"]["spec"]["template"]["spec"]["restartPolicy"]
    (role,) = rendered(jobset(job))["spec"]["taskRoles"]
    assert role["task"]["pod"]["spec"]["restartPolicy"] == "OnFailure"


def test_coordinator_is_the_host_name_of_its_pod() -> None:
    text = jobset(LEADER, WORKERS, spec="coordinator: {replicatedJob: workers, jobIndex: 1, podIndex: 1}")
    for role in ("leader", "workers"):
        labels = pod_of(text, role, 0)["metadata"]["labels"]
        assert labels["jobset.sigs.k8s.io/coordinator"] == "digits-workers-1-1.digits"


def test_exclusive_placement_keeps_the_pods_of_a_job_together_and_others_away() -> None:
    text = jobset(WORKERS, annotations={"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"})
    affinity = pod_of(text, "workers", 2)["spec"]["affinity"]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    (together,), (apart,) = affinity["podAffinity"][required], affinity["podAntiAffinity"][required]
    assert together["topologyKey"] == apart["topologyKey"] == "rack"
    key = "jobset.sigs.k8s.io/job-key"
    assert together["labelSelector"]["matchExpressions"] == [
        {"key": key, "operator": "In", "values": ["default.digits-workers-1"]}
    ]
    assert apart["labelSelector"]["matchExpressions"][1] == {
        "key": key, "operator": "NotIn", "values": ["default.digits-workers-1"]
    }  # fmt: skip
    assert pod_of(text, "workers", 2)["metadata"]["labels"][key] == "default.digits-workers-1"


def test_node_selector_strategy_selects_the_nodes_of_the_job() -> None:
    prefix = "alpha.jobset.sigs.k8s.io"
    text = jobset(
        WORKERS, annotations={f"{prefix}/exclusive-topology": "rack", f"{prefix}/node-selector": "true"}
    )
    spec = pod_of(text, "workers", 1)["spec"]
    assert spec["nodeSelector"] == {f"{prefix}/namespaced-job": "default_digits-workers-0"}
    assert spec["tolerations"] == [
        {"key": f"{prefix}/no-schedule", "operator": "Exists", "effect": "NoSchedule"}
    ]


# Services and claims


def test_host_names_resolve_by_the_service_that_every_job_has() -> None:
    text = jobset(LEADER)
    assert convert(text).objects == ()
    assert pod_of(text, "leader", 0)["spec"]["subdomain"] == "digits"


@pytest.mark.parametrize("is_published", [True, False])
def test_other_subdomain_has_a_service(is_published: bool) -> None:
    network = f"network: {{subdomain: peers, publishNotReadyAddresses: {str(is_published).lower()}}}"
    text = jobset(LEADER, spec=network)
    (service,) = convert(text).objects
    assert service["metadata"] == {"name": "peers", "labels": {"windlass.dev/job": "digits"}}
    assert service["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": is_published,
        "selector": {"jobset.sigs.k8s.io/jobset-name": "digits"},
    }
    assert pod_of(text, "leader", 0)["spec"]["subdomain"] == "peers"


@pytest.mark.parametrize("field", ["enableDNSHostnames", "publishNotReadyAddresses"])
def test_host_names_cannot_be_switched_off(field: str) -> None:
    conversion = convert(jobset(LEADER, spec=f"network: {{{field}: false}}"))
    assert conversion.objects == ()
    assert [note.path for note in conversion.notes if note.kind is NoteKind.NO_EFFECT] == [
        f"spec.network.{field}"
    ]


CLAIMS = """volumeClaimPolicies: [{retentionPolicy: {whenDeleted: Retain}, templates: [{metadata: {name: cache,
labels: {app: digits}}, spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}}]}]"""


def test_claims_are_created_and_mounted_where_a_container_names_them() -> None:
    job = replicated("leader")
    mount = {"name": "cache", "mountPath": "/cache"}
    job["template"]["spec"]["template"]["spec"]["containers"] = [{**CONTAINER, "volumeMounts": [mount]}]
    text = jobset(job, WORKERS, spec=CLAIMS.replace("\n", " "))
    (claim,) = convert(text).objects
    assert claim["metadata"] == {
        "name": "cache-digits",
        "labels": {"app": "digits", "windlass.dev/job": "digits", "jobset.sigs.k8s.io/jobset-name": "digits"},
    }
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    volume = {"name": "cache", "persistentVolumeClaim": {"claimName": "cache-digits"}}
    assert volume in pod_of(text, "leader", 0)["spec"]["volumes"]
    assert volume not in pod_of(text, "workers", 0)["spec"]["volumes"]


# Lifetime


@pytest.mark.parametrize(
    ("spec", "job", "field", "value"),
    [
        ("ttlSecondsAfterFinished: 60", "", "ttlSecondsAfterFinished", 60),
        ("suspend: true", "", "suspend", True),
        ("", "activeDeadlineSeconds: 90", "activeDeadlineSeconds", 90),
    ],
)
def test_field_of_the_spec_becomes_one_of_the_framework(spec: str, job: str, field: str, value: Any) -> None:
    text = jobset(replicated("leader", job), replicated("workers", job), spec=spec)
    assert rendered(text)["spec"][field] == value


def test_rule_about_the_first_failure_selects_all_jobs_of_a_replicated_job() -> None:
    """So that a JobSet with a thousand Jobs has one rule."""
    text = jobset(replicated("workers", f"{TWO}, backoffLimit: 0", replicas=1000))
    assert rule_names(text) == ["workers: backoffLimit 0"]
    text = jobset(replicated("workers", f"{TWO}, backoffLimit: 1", replicas=3))
    assert rule_names(text) == [f"workers-{index}: backoffLimit 1" for index in range(3)]


# Refused values


@pytest.mark.parametrize(
    ("text", "path", "advice"),
    [
        (jobset(), "spec.replicatedJobs", "missing: add at least one"),
        (jobset(LEADER, spec="failurePolicy: {rules: [{action: RestartJob}]}"),
         "spec.failurePolicy.rules[0].action", "use RestartJobSet"),
        (jobset(LEADER, spec="failurePolicy: {rules: [{action: Stop}]}"),
         "spec.failurePolicy.rules[0].action", "found Stop, expected FailJobSet"),
        (jobset(LEADER, spec="failurePolicy: {restartStrategy: InPlaceRestart}"),
         "spec.failurePolicy.restartStrategy", "use BlockingRecreate"),
        (jobset(LEADER, spec="failurePolicy: {rules: [{action: FailJobSet, targetReplicatedJobs: [ps]}]}"),
         "spec.failurePolicy.rules[0].targetReplicatedJobs[0]", "no replicated job is named ps"),
        (jobset(LEADER, spec="failurePolicy: {rules: [{action: FailJobSet, onJobFailureReasons: [Evicted]}]}"),
         "spec.failurePolicy.rules[0].onJobFailureReasons[0]", "is not a reason of a failed Job"),
        (jobset(LEADER, spec="failurePolicy: {rules: [{action: FailJobSet, onJobFailureMessagePatterns: ['(']}]}"),
         "spec.failurePolicy.rules[0].onJobFailureMessagePatterns[0]", "invalid regular expression"),
        (jobset(replicated("leader", fail_job("8, 9")),
                spec="failurePolicy: {rules: [{action: FailJobSet, onJobFailureMessagePatterns: ['code 9']}]}"),
         "spec.failurePolicy.rules[0].onJobFailureMessagePatterns", "use a rule per exit code"),
        (jobset(LEADER, spec="successPolicy: {operator: Some}"), "spec.successPolicy.operator", "expected All or Any"),
        (jobset(LEADER, spec="successPolicy: {operator: All, targetReplicatedJobs: [ps]}"),
         "spec.successPolicy.targetReplicatedJobs[0]", "no replicated job is named ps"),
        (jobset(LEADER, replicated("workers", f"{TWO}, successPolicy: {{rules: [{{succeededCount: 1}}]}}")),
         "spec.replicatedJobs[1].template.spec.successPolicy", "with the operator Any"),
        (jobset(LEADER, spec="startupPolicy: {startupPolicyOrder: Reverse}"),
         "spec.startupPolicy.startupPolicyOrder", "expected AnyOrder or InOrder"),
        (jobset(replicated("a", dependsOn=[{"name": "leader", "status": "Ready"}]), LEADER),
         "spec.replicatedJobs[0].dependsOn[0].name", "leader is not an earlier replicated job"),
        (jobset(LEADER, replicated("a", dependsOn=[{"name": "leader", "status": "Failed"}])),
         "spec.replicatedJobs[1].dependsOn[0].status", "expected Complete or Ready"),
        (jobset(LEADER, spec="coordinator: {replicatedJob: leader, podIndex: 1}"), "spec.coordinator", "has this pod"),
        (jobset(LEADER, spec="managedBy: kueue.x-k8s.io/multikueue"), "spec.managedBy", "remove the field"),
        (jobset(LEADER, spec=CLAIMS.replace("\n", " ")), "spec.volumeClaimPolicies", "no container mounts cache"),
        (jobset(replicated("leader", "parallelism: 2")),
         "spec.replicatedJobs[0].template.spec.completions", "required with completionMode Indexed"),
        (jobset(LEADER, replicated("a", "activeDeadlineSeconds: 5")),
         "spec.replicatedJobs[1].template.spec.activeDeadlineSeconds", "in the spec of the pods instead"),
        (jobset(replicated("a", "activeDeadlineSeconds: 5"), spec="failurePolicy: {maxRestarts: 1}"),
         "spec.replicatedJobs[0].template.spec.activeDeadlineSeconds", "in the spec of the pods instead"),
        (jobset({**LEADER, "replicas": "two"}), "spec.replicatedJobs[0].replicas", "expected int | null, found str"),
        (jobset(LEADER, spec="replicas: 2"), "spec.replicas", "unknown field"),
    ],
)  # fmt: skip
def test_value_that_cannot_be_converted_is_refused(text: str, path: str, advice: str) -> None:
    refused = [(note.path, note.text) for note in convert(text).notes if note.kind is NoteKind.REFUSED]
    assert any(found == path and advice in note for found, note in refused), refused


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (jobset(LEADER, spec="managedBy: jobset.sigs.k8s.io/jobset-controller"), "spec.managedBy"),
        (jobset(replicated("a", "ttlSecondsAfterFinished: 5")),
         "spec.replicatedJobs[0].template.spec.ttlSecondsAfterFinished"),
        (jobset(replicated("a", "suspend: true")), "spec.replicatedJobs[0].template.spec.suspend"),
    ],
)  # fmt: skip
def test_field_without_effect_has_a_reason(text: str, path: str) -> None:
    conversion = convert(text)
    assert [note.path for note in conversion.notes if note.kind is NoteKind.NO_EFFECT] == [path]
    assert not conversion.is_refused


def test_framework_of_a_large_jobset_is_decoded_unchanged() -> None:
    found = framework(
        jobset(LEADER, replicated("workers", TWO, replicas=50), spec="failurePolicy: {maxRestarts: 3}")
    )
    assert found.spec.task_roles[1].task_number == 100
    assert msgspec.to_builtins(found.spec)["completionPolicies"][0]["name"] == "leader: backoffLimit 0"
