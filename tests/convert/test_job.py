"""Job (batch/v1): the job file, and what becomes of pods that fail, against the Job controller of Kubernetes 1.37."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.convert.outcomes import Outcome, convert, play, rendered

from windlass.convert import job as job_kind
from windlass.convert import kinds
from windlass.convert.conversion import NoteKind
from windlass.k8s import types
from windlass.model.base import Json
from windlass.render import documents

IGNORE = "{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}"
THREE = "completionMode: Indexed, completions: 3, parallelism: 3"


def job(spec: str, restart_policy: str = "Never") -> str:
    """Return a Job with this spec, in YAML flow style."""
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "sum"},
        "spec": {
            **yaml.safe_load(f"{{{spec}}}"),
            "template": {
                "spec": {
                    "restartPolicy": restart_policy,
                    "containers": [{"name": "main", "image": "example.org/sum:1", "command": ["sum"]}],
                }
            },
        },
    }
    return yaml.safe_dump(body)


def rules_of(text: str) -> list[Json]:
    found: list[Json] = rendered(text)["spec"].get("completionPolicies", [])
    return found


def role_of(text: str) -> Json:
    (role,) = rendered(text)["spec"]["taskRoles"]
    assert isinstance(role, dict)
    return role


# The number of tasks


@pytest.mark.parametrize(
    ("spec", "tasks", "parallelism"),
    [
        ("", 1, None),
        ("completions: 5", 5, 1),
        ("parallelism: 3", 3, None),
        ("completions: 5, parallelism: 2", 5, 2),
        ("completions: 2, parallelism: 5", 2, None),
        ("completions: 4, parallelism: 4", 4, None),
    ],
)
def test_tasks_are_the_completions_and_parallelism_limits_their_pods(
    spec: str, tasks: int, parallelism: int | None
) -> None:
    role = role_of(job(spec))
    assert (role["taskNumber"], role.get("parallelism")) == (tasks, parallelism)


def test_parallelism_0_suspends_the_job() -> None:
    assert rendered(job("completions: 2, parallelism: 0"))["spec"]["suspend"] is True


# Outcomes


@pytest.mark.parametrize(
    ("spec", "steps", "expected"),
    [
        # Every pod has to succeed; a failed one is replaced.
        pytest.param("completions: 2, parallelism: 2", ["exit 0 worker-0"], ("Active", 2), id="one of two"),
        pytest.param(
            "completions: 2, parallelism: 2",
            ["exit 0 worker-0", "exit 1 worker-1", "exit 137 worker-1", "exit 0 worker-1"],
            ("Succeeded", 4),
            id="replaced twice",
        ),
        # backoffLimit counts failed pods of all indexes, whatever their exit codes.
        pytest.param("backoffLimit: 0", ["exit 1 worker-0"], ("Failed", 1), id="limit 0"),
        pytest.param(
            "backoffLimit: 1", ["exit 139 worker-0", "exit 210 worker-0"], ("Failed", 2), id="limit 1"
        ),
        pytest.param(
            "backoffLimit: 2, completions: 3, parallelism: 3",
            ["exit 1 worker-0", "exit 1 worker-1", "exit 1 worker-2"],
            ("Failed", 3),
            id="limit 2 over three indexes",
        ),
        pytest.param(
            "",
            [*["exit 1 worker-0"] * 6, "exit 0 worker-0"],
            ("Succeeded", 7),
            id="default limit: six failures",
        ),
        pytest.param("", ["exit 1 worker-0"] * 7, ("Failed", 7), id="default limit: seven failures"),
        pytest.param(
            "backoffLimit: 0", ["delete worker-0"], ("Failed", 1), id="a deleted pod is a failed one"
        ),
        pytest.param("backoffLimit: 0", ["disrupt worker-0"], ("Failed", 1), id="so is an evicted one"),
        # backoffLimitPerIndex: the others go on.
        pytest.param(
            "completionMode: Indexed, completions: 2, parallelism: 2, backoffLimitPerIndex: 1",
            ["exit 1 worker-0", "exit 1 worker-0"],
            ("Active", 3),
            id="a failed index does not end the job",
        ),
        pytest.param(
            "completionMode: Indexed, completions: 2, parallelism: 2, backoffLimitPerIndex: 1",
            ["exit 1 worker-0", "exit 1 worker-0", "exit 0 worker-1"],
            ("Failed", 3),
            id="it fails when all indexes have ended",
        ),
        pytest.param(
            "completionMode: Indexed, completions: 3, parallelism: 3, backoffLimitPerIndex: 0, maxFailedIndexes: 1",
            ["exit 1 worker-0", "exit 1 worker-2"],
            ("Failed", 3),
            id="maxFailedIndexes",
        ),
        pytest.param(
            "completionMode: Indexed, completions: 3, parallelism: 3, backoffLimitPerIndex: 0, maxFailedIndexes: 1",
            ["exit 1 worker-0", "exit 0 worker-1", "exit 0 worker-2"],
            ("Failed", 3),
            id="fewer failed indexes than maxFailedIndexes",
        ),
        pytest.param(
            "completionMode: Indexed, completions: 3, parallelism: 3, backoffLimitPerIndex: 5, backoffLimit: 1",
            ["exit 1 worker-0", "exit 1 worker-1"],
            ("Failed", 3),
            id="backoffLimit in addition",
        ),
        # podFailurePolicy
        pytest.param(
            "podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]}",
            ["exit 42 worker-0"],
            ("Failed", 1),
            id="FailJob",
        ),
        pytest.param(
            "podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]}",
            ["exit 41 worker-0"],
            ("Active", 1),
            id="another exit code",
        ),
        pytest.param(
            "podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: NotIn, values: [1, 3, 4]}}]}",
            ["exit 1 worker-0", "exit 3 worker-0", "exit 4 worker-0", "exit 2 worker-0"],
            ("Failed", 4),
            id="NotIn between values",
        ),
        pytest.param(
            "podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: NotIn, values: [1, 3]}}]}",
            ["exit 4 worker-0"],
            ("Failed", 1),
            id="NotIn above values",
        ),
        pytest.param(
            f"backoffLimit: 0, podFailurePolicy: {{rules: [{IGNORE}]}}",
            ["disrupt worker-0", "disrupt worker-0", "exit 0 worker-0"],
            ("Succeeded", 3),
            id="Ignore",
        ),
        pytest.param(
            f"backoffLimit: 0, podFailurePolicy: {{rules: [{IGNORE}]}}",
            ["disrupt worker-0", "exit 143 worker-0"],
            ("Failed", 2),
            id="not disrupted",
        ),
        pytest.param(
            "backoffLimit: 0, podFailurePolicy: {rules: [{action: Count, onExitCodes: {operator: In, values: [137]}}]}",
            ["exit 137 worker-0"],
            ("Failed", 1),
            id="Count",
        ),
        pytest.param(
            "backoffLimit: 0, podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In, values: [9]}}]}",
            ["exit 200 worker-0"],
            ("Failed", 1),
            id="exit code 200 counts too",
        ),
        pytest.param(
            "backoffLimit: 0, podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [3], "
            "containerName: other}}, {action: Ignore, onExitCodes: {operator: In, values: [3], containerName: main}}]}",
            ["exit 3 worker-0", "exit 0 worker-0"],
            ("Succeeded", 2),
            id="containerName",
        ),
        pytest.param(
            "completionMode: Indexed, completions: 2, parallelism: 2, backoffLimitPerIndex: 3, podFailurePolicy: "
            "{rules: [{action: FailIndex, onExitCodes: {operator: In, values: [42]}}]}",
            ["exit 42 worker-0", "exit 0 worker-1"],
            ("Failed", 2),
            id="FailIndex",
        ),
        # successPolicy
        pytest.param(
            f"{THREE}, successPolicy: {{rules: [{{succeededIndexes: '0,2'}}]}}",
            ["exit 0 worker-1", "exit 0 worker-2"],
            ("Active", 3),
            id="succeededIndexes: not yet",
        ),
        pytest.param(
            f"{THREE}, successPolicy: {{rules: [{{succeededIndexes: '0,2'}}]}}",
            ["exit 0 worker-0", "exit 0 worker-2"],
            ("Succeeded", 3),
            id="succeededIndexes",
        ),
        pytest.param(
            "completionMode: Indexed, completions: 4, parallelism: 4, successPolicy: {rules: "
            "[{succeededIndexes: 1-3, succeededCount: 2}]}",
            ["exit 0 worker-0", "exit 0 worker-1", "exit 0 worker-3"],
            ("Succeeded", 4),
            id="succeededCount of some indexes",
        ),
        pytest.param(
            "completionMode: Indexed, completions: 3, parallelism: 3, successPolicy: {rules: [{succeededCount: 1}]}",
            ["exit 0 worker-2"],
            ("Succeeded", 3),
            id="succeededCount",
        ),
        # parallelism
        pytest.param(
            "completions: 3, parallelism: 1",
            ["exit 0 worker-0", "exit 1 worker-1"],
            ("Active", 2),
            id="one pod at a time",
        ),
        # Without completions
        pytest.param("parallelism: 2", ["exit 0 worker-0"], ("Active", 2), id="work queue: others go on"),
        pytest.param(
            "parallelism: 2",
            ["exit 0 worker-1", "exit 0 worker-0"],
            ("Succeeded", 2),
            id="work queue: all ended",
        ),
    ],
)
def test_outcome_is_that_of_the_job_controller(
    spec: str, steps: list[str], expected: tuple[str, int]
) -> None:
    found = play(job(spec), *steps)
    assert (found.verdict, found.pods["worker"], found.restarts) == (*expected, 0)


@pytest.mark.parametrize(
    ("spec", "steps", "verdict"),
    [
        ("backoffLimit: 2", ["restart worker-0"], "Active"),
        ("backoffLimit: 2", ["restart worker-0", "restart worker-0"], "Failed"),
        ("backoffLimit: 0", ["restart worker-0"], "Failed"),
        (
            "backoffLimit: 2, completions: 2, parallelism: 2",
            ["restart worker-0", "restart worker-1"],
            "Failed",
        ),
        ("backoffLimit: 2", ["restart worker-0", "exit 0 worker-0"], "Succeeded"),
        ("backoffLimit: 1", ["disrupt worker-0"], "Active"),
        ("backoffLimit: 1", ["disrupt worker-0", "disrupt worker-0"], "Failed"),
    ],
)
def test_restarts_of_containers_count_towards_backoff_limit_with_on_failure(
    spec: str, steps: list[str], verdict: str
) -> None:
    text = job(spec, "OnFailure")
    assert role_of(text)["task"]["pod"]["spec"]["restartPolicy"] == "OnFailure"
    assert play(text, *steps).verdict == verdict


def test_failed_pods_are_replaced_after_the_delays_of_the_job_controller() -> None:
    backoff = role_of(job(""))["task"]["retryPolicy"]["retryBackoff"]
    assert backoff == {"initialSec": 10, "maxSec": 600}


def test_verdict_names_the_policy_of_the_job() -> None:
    assert play(job("backoffLimit: 0"), "exit 3 worker-0") == Outcome(
        "Failed", {"worker": 1}, 0, "backoffLimit 0: 1 attempt has failed (minFailedAttemptCount 1)"
    )


# Deadlines, suspension


@pytest.mark.parametrize(
    ("spec", "field", "value"),
    [
        ("activeDeadlineSeconds: 90", "activeDeadlineSeconds", 90),
        ("ttlSecondsAfterFinished: 0", "ttlSecondsAfterFinished", 0),
        ("ttlSecondsAfterFinished: 60", "ttlSecondsAfterFinished", 60),
        ("suspend: true", "suspend", True),
        ("suspend: false", "suspend", None),
        ("backoffLimit: 2147483647", "completionPolicies", None),
    ],
)
def test_field_of_the_spec_becomes_one_of_the_framework(spec: str, field: str, value: Any) -> None:
    assert rendered(job(spec))["spec"].get(field) == value


# The pod


def test_pods_of_an_indexed_job_have_index_and_host_name() -> None:
    pod = role_of(job("completionMode: Indexed, completions: 2"))["task"]["pod"]
    assert pod["metadata"]["labels"] == {
        "batch.kubernetes.io/job-completion-index": "{{FC_TASK_INDEX}}",
        "batch.kubernetes.io/job-name": "sum",
        "job-name": "sum",
    }
    assert pod["metadata"]["annotations"] == {"batch.kubernetes.io/job-completion-index": "{{FC_TASK_INDEX}}"}
    assert pod["spec"]["hostname"] == "sum-{{FC_TASK_INDEX}}"
    (container,) = pod["spec"]["containers"]
    assert {"name": "JOB_COMPLETION_INDEX", "value": "{{FC_TASK_INDEX}}"} in container["env"]


def test_pods_without_index_have_only_the_labels_of_the_job() -> None:
    pod = role_of(job("completions: 2"))["task"]["pod"]
    assert pod["metadata"] == {"labels": {"batch.kubernetes.io/job-name": "sum", "job-name": "sum"}}
    assert "hostname" not in pod["spec"]
    assert "JOB_COMPLETION_INDEX" not in str(pod)


def test_every_container_gets_the_index_unless_it_sets_the_variable() -> None:
    text = """
apiVersion: batch/v1
kind: Job
metadata: {name: sum}
spec:
  completionMode: Indexed
  completions: 2
  template:
    metadata: {labels: {app: sum, controller-uid: 6d1a}, annotations: {note: mine}}
    spec:
      restartPolicy: Never
      subdomain: sums
      initContainers: [{name: first, image: a}]
      containers:
      - {name: main, image: b, command: [sum], env: [{name: JOB_COMPLETION_INDEX, value: "7"}]}
      - {name: sidecar, image: c, env: [{name: OTHER, value: x}]}
"""
    pod = role_of(text)["task"]["pod"]
    containers = [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]
    found = {
        each["name"]: [
            variable["value"]
            for variable in each.get("env", ())
            if variable["name"] == "JOB_COMPLETION_INDEX"
        ]
        for each in containers
    }
    assert found == {"first": ["{{FC_TASK_INDEX}}"], "main": ["7"], "sidecar": ["{{FC_TASK_INDEX}}"]}
    assert pod["metadata"]["labels"]["app"] == "sum"
    assert "controller-uid" not in pod["metadata"]["labels"]
    assert pod["metadata"]["annotations"]["note"] == "mine"
    assert pod["spec"]["subdomain"] == "sums"


def test_headless_service_with_the_name_of_the_job_is_left_to_the_job() -> None:
    service = "{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {clusterIP: %s}}"
    job_of_file = job("completions: 2, completionMode: Indexed")
    for name, address, kept in (("sum", "None", 0), ("sums", "None", 1), ("sum", "10.0.0.7", 1)):
        contents = documents.read(f"{service % (name, address)}\n---\n{job_of_file}".encode(), "job.yaml")
        assert not contents.errors
        assert len(contents.manifests) == kept, name


# Refused values


@pytest.mark.parametrize(
    ("spec", "restart_policy", "path", "advice"),
    [
        ("completions: two", "Never", "spec.completions", "expected int | null, found str"),
        ("backoffLimit: -1", "Never", "spec.backoffLimit", "expected int >= 0"),
        ("completions: 0", "Never", "spec.completions", "runs nothing"),
        ("parallelism: 0", "Never", "spec.parallelism", "0 starts no pods"),
        ("completionMode: Other", "Never", "spec.completionMode", "expected Indexed or NonIndexed"),
        ("completionMode: Indexed, parallelism: 2", "Never", "spec.completions", "required"),
        ("", "Always", "spec.template.spec.restartPolicy", "found Always, expected Never or OnFailure"),
        ("backoffLimitPerIndex: 1", "Never", "spec.backoffLimitPerIndex", "requires completionMode Indexed"),
        (
            "completionMode: Indexed, completions: 1, backoffLimitPerIndex: 1",
            "OnFailure",
            "spec.backoffLimitPerIndex",
            "requires the restartPolicy Never",
        ),
        ("maxFailedIndexes: 1", "Never", "spec.maxFailedIndexes", "requires backoffLimitPerIndex"),
        ("managedBy: kueue.x-k8s.io/multikueue", "Never", "spec.managedBy", "remove the field to run it here"),
        ("successPolicy: {rules: [{succeededCount: 1}]}", "Never", "spec.successPolicy", "requires completionMode"),
        (
            "podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: Ready, status: 'False'}]}]}",
            "Never",
            "spec.podFailurePolicy.rules[0].onPodConditions[0].status",
            "use a condition that is True",
        ),
        (
            "podFailurePolicy: {rules: [{action: FailIndex, onPodConditions: [{type: Ready}]}]}",
            "Never",
            "spec.podFailurePolicy.rules[0].action",
            "requires backoffLimitPerIndex",
        ),
        (
            "podFailurePolicy: {rules: [{action: Retry, onPodConditions: [{type: Ready}]}]}",
            "Never",
            "spec.podFailurePolicy.rules[0].action",
            "found Retry, expected",
        ),
        (
            "podFailurePolicy: {rules: [{action: Ignore}]}",
            "Never",
            "spec.podFailurePolicy.rules[0]",
            "expected either onExitCodes or onPodConditions",
        ),
        ("podFailurePolicy: {rules: []}, scheduling: {resourceClaims: [{name: a}]}", "Never",
         "spec.scheduling.resourceClaims", "in the pod template"),
        ("backofLimit: 3", "Never", "spec.backofLimit", "unknown field"),
    ],
)  # fmt: skip
def test_value_that_cannot_be_converted_is_refused(
    spec: str, restart_policy: str, path: str, advice: str
) -> None:
    refused = [
        (note.path, note.text)
        for note in convert(job(spec, restart_policy)).notes
        if note.kind is NoteKind.REFUSED
    ]
    assert any(found == path and advice in text for found, text in refused), refused


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ("manualSelector: true", "spec.manualSelector"),
        ("selector: {matchLabels: {a: b}}", "spec.selector"),
        ("podReplacementPolicy: Failed", "spec.podReplacementPolicy"),
        ("managedBy: kubernetes.io/job-controller", "spec.managedBy"),
        ("scheduling: {schedulingPolicy: {gang: {minCount: 2}}}", "spec.scheduling.schedulingPolicy"),
    ],
)
def test_field_without_effect_has_a_reason(spec: str, path: str) -> None:
    conversion = convert(job(spec))
    assert [note.path for note in conversion.notes if note.kind is NoteKind.NO_EFFECT] == [path]
    assert not conversion.is_refused


def test_gang_is_kept_in_an_annotation() -> None:
    framework = rendered(job("scheduling: {schedulingPolicy: {gang: {minCount: 2}}}"))
    kept = framework["metadata"]["annotations"]["windlass.dev/scheduling-policy"]
    assert yaml.safe_load(kept) == {"schedulingPolicy": {"gang": {"minCount": 2}}}


def test_rules_of_the_job_come_in_the_order_of_the_job_controller() -> None:
    spec = (
        "completionMode: Indexed, completions: 4, parallelism: 4, backoffLimitPerIndex: 1, maxFailedIndexes: 2, "
        "backoffLimit: 5, successPolicy: {rules: [{succeededIndexes: '0'}, {succeededCount: 3}]}, "
        "podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]}"
    )
    assert [rule["name"] for rule in rules_of(job(spec))] == [
        "podFailurePolicy rule 0",
        "backoffLimit 5",
        "maxFailedIndexes 2",
        "failed indexes",
        "successPolicy rule 0",
        "successPolicy rule 1",
    ]


# All fields


def leaves(type_name: str, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the fields of a built-in type. Items of lists are `*`."""
    name = type_name.removeprefix("[]")
    keys = (*path, "*") if name != type_name else path
    known = types.types().get(name)
    if known is None or name in ("V1PodTemplateSpec", "V1LabelSelector"):
        yield path
        return
    for field, below in known.fields.items():
        yield from leaves(below, (*keys, field))


def test_every_field_of_the_spec_is_in_exactly_one_list() -> None:
    (kind,) = job_kind.KINDS
    paths = list(leaves("V1JobSpec", ("spec",)))
    assert ("spec", "podFailurePolicy", "rules", "*", "onExitCodes", "values") in paths
    lists = {".".join(path): kind.fields.lists_of(path) for path in paths}
    assert {path: found for path, found in lists.items() if len(found) != 1} == {}


WRONG_VALUES: tuple[Any, ...] = ("text", -1, [], {}, [3], {"a": 1})


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def with_value(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = with_value(value[path[0]], path[1:], new)
    return copy


EVERY_FIELD = """
apiVersion: batch/v1
kind: Job
metadata: {name: sum, labels: {a: b}, annotations: {c: d}}
spec:
  completions: 4
  parallelism: 2
  completionMode: Indexed
  backoffLimit: 3
  backoffLimitPerIndex: 1
  maxFailedIndexes: 2
  activeDeadlineSeconds: 60
  ttlSecondsAfterFinished: 60
  suspend: false
  managedBy: kubernetes.io/job-controller
  podReplacementPolicy: Failed
  scheduling: {schedulingPolicy: {gang: {minCount: 2}}}
  podFailurePolicy:
    rules:
    - action: FailIndex
      onExitCodes: {containerName: main, operator: NotIn, values: [1, 2]}
    - {action: Ignore, onPodConditions: [{type: DisruptionTarget, status: "True"}]}
  successPolicy: {rules: [{succeededIndexes: 0-1, succeededCount: 1}]}
  template:
    metadata: {labels: {a: b}, annotations: {c: d}}
    spec:
      restartPolicy: Never
      containers: [{name: main, image: a, command: [b], env: [{name: X, value: y}]}]
      initContainers: [{name: first, image: a}]
"""


def test_every_field_converts() -> None:
    assert rendered(EVERY_FIELD)["spec"]["taskRoles"][0]["taskNumber"] == 4


@pytest.mark.parametrize("wrong", WRONG_VALUES, ids=repr)
def test_value_of_a_wrong_type_is_reported_and_never_a_crash(wrong: Any) -> None:
    original = yaml.safe_load(EVERY_FIELD)
    (kind,) = job_kind.KINDS
    for path in places(original):
        if path and path[0] == "spec":
            conversion = kinds.convert(with_value(original, path, wrong), kind)
            assert conversion.is_refused or conversion.document["roles"], path
