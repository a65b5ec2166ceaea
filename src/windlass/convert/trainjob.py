"""TrainJob of Kubeflow's Trainer (trainer.kubeflow.org/v1alpha1), with the runtime that it refers to.

The Trainer makes a JobSet of a TrainJob and its runtime. So does this module (`training_runtime`); the JobSet is
converted like one that a user writes.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.convert import conversion, default_runtimes, job_spec, jobset, training_runtime
from windlass.convert.conversion import Draft, Keys, NoteKind
from windlass.convert.default_runtimes import API_VERSION, CLUSTER_RUNTIME, GROUP, NAMESPACED_RUNTIME
from windlass.convert.fields import METADATA, Fields, Kind, Needed
from windlass.convert.trainjob_spec import Runtime, TrainJobSpec
from windlass.model import names
from windlass.model.base import Json

OWN_CONTROLLER = "trainer.kubeflow.org/trainjob-controller"
_PLURALS = {CLUSTER_RUNTIME: "clustertrainingruntimes", NAMESPACED_RUNTIME: "trainingruntimes"}
_RUNTIME_REF: Keys = ("spec", "runtimeRef")
_SCHEDULING = (
    "kept in the annotation windlass.dev/scheduling-policy: "
    "the scheduler places pods one by one, without a gang"
)


def runtime_of(original: Json) -> tuple[str, str]:
    """Return kind and name of the runtime that a TrainJob refers to."""
    reference: Json = (original.get("spec") or {}).get("runtimeRef") or {}
    return reference.get("kind") or CLUSTER_RUNTIME, reference.get("name") or ""


def needs(original: Json) -> tuple[Needed, ...]:
    kind, name = runtime_of(original)
    if kind not in _PLURALS or not name:
        return ()
    return (Needed(API_VERSION, kind, _PLURALS[kind], name, is_namespaced=kind == NAMESPACED_RUNTIME),)


def convert(draft: Draft) -> None:
    if job_spec.decode(draft, TrainJobSpec, draft.spec, ("spec",)) is None:
        return
    runtime = _runtime(draft)
    manager = draft.get("managedBy")
    if manager and manager != OWN_CONTROLLER:
        draft.refuse(
            ("spec", "managedBy"),
            f"{manager} manages this job, not the Trainer: remove the field to run it here",
        )
    if runtime is None or job_spec.decode(draft, Runtime, runtime, _RUNTIME_REF) is None:
        return
    notes = list(dict.fromkeys(RUNTIME_FIELDS.notes(runtime)))
    for note in notes:
        _report(draft, note.kind, f"in the runtime, {note.path}: {note.text}")
    if any(note.kind is NoteKind.REFUSED for note in notes):
        return
    problems, made = training_runtime.job_set(draft.original, runtime)
    for keys, advice in problems:
        draft.refuse(keys, advice)
    if made is None or problems:
        return
    _put_job_set(draft, made)
    draft.objects += [
        {**each, "metadata": {**each["metadata"], **draft.metadata_of(each["metadata"]["name"])}}
        for each in made.objects
    ]
    if made.needs_ssh_key:
        draft.annotate(names.SSH_KEY_ANNOTATION, "true")
    policy = (runtime.get("spec") or {}).get("podGroupPolicy")
    if policy:
        draft.annotate(conversion.POLICY_ANNOTATION, msgspec.json.encode(policy).decode())
    deadline = draft.get("activeDeadlineSeconds")
    if deadline:
        draft.put(("activeDeadline",), deadline, ("spec", "activeDeadlineSeconds"))


def _runtime(draft: Draft) -> Json | None:
    """Return the runtime of the file, or one of those that the Trainer installs; None if it is unknown."""
    kind, name = runtime_of(draft.original)
    group = draft.get("runtimeRef", "apiGroup") or GROUP
    if group != GROUP or kind not in _PLURALS:
        draft.refuse(
            _RUNTIME_REF,
            f"found {group} {kind}, expected {CLUSTER_RUNTIME} or {NAMESPACED_RUNTIME} of {GROUP}",
        )
        return None
    for other in draft.others:
        metadata: Json = other.get("metadata") or {}
        if (other.get("apiVersion"), other.get("kind"), metadata.get("name")) == (API_VERSION, kind, name):
            draft.used.append(other)
            return other
    default = default_runtimes.default_runtime(name) if kind == CLUSTER_RUNTIME else None
    if default is None:
        resource = _PLURALS[kind]
        draft.refuse(
            _RUNTIME_REF,
            f"the {kind} {name} is not in the file: append it after a line `---`, e.g. the output of "
            f"`kubectl get {resource} {name} -o yaml`",
        )
    else:
        draft.note(
            _RUNTIME_REF,
            f"the runtime {name} is not in the file: the one that Trainer {default_runtimes.VERSION} installs is used. "
            "Append yours if it differs",
        )
    return default


def _put_job_set(draft: Draft, made: training_runtime.Made) -> None:
    """Convert the JobSet, and put the result into the draft. Fields of the trainer have their position in the
    TrainJob, and all others that of the runtimeRef."""
    inner = Draft(made.job_set)
    found = list(dict.fromkeys(jobset.FIELDS.notes(made.job_set)))
    if not any(note.kind is NoteKind.REFUSED for note in found):
        jobset.convert(inner)
    result = inner.conversion(found)
    own = draft.document
    annotations = {**result.document["annotations"], **own["annotations"]}
    labels = {**(result.document.get("labels") or {}), **(own.get("labels") or {})}
    for key, value in {**result.document, "annotations": annotations, "labels": labels}.items():
        if key not in ("name", "namespace") and value:
            draft.put((key,), value)
    for keys, comment in result.comments.items():
        draft.put(keys, _at(draft.document, keys), comment=comment)
    for keys in result.origins:
        if keys[:1] == ("roles",):
            draft.map_origin(keys, _RUNTIME_REF)
    for trainer in made.trainers:
        _map_trainer(draft, inner.role_name(trainer))
    for note in result.notes:
        _report(draft, note.kind, f"in the JobSet of the runtime, {note.path}: {note.text}")
    draft.objects += result.objects


def _at(document: Any, keys: Keys) -> Any:
    for key in keys:
        document = document[key]
    return document


def _map_trainer(draft: Draft, role: str) -> None:
    """Map the fields that the TrainJob sets to their position in it."""
    fields: Sequence[tuple[str, str]] = (
        ("image", "image"),
        ("command", "command"),
        ("env", "env"),
        ("tasks", "numNodes"),
    )
    for own, theirs in fields:
        if draft.get("trainer", theirs) is not None:
            draft.map_origin(("roles", role, own), ("spec", "trainer", theirs))


def _report(draft: Draft, kind: NoteKind, text: str) -> None:
    reports: dict[NoteKind, Any] = {
        NoteKind.MAPPED: draft.note,
        NoteKind.NO_EFFECT: draft.no_effect,
        NoteKind.REFUSED: draft.refuse,
    }
    reports[kind](_RUNTIME_REF, text)


_POD = "spec.runtimePatches.*.trainingRuntimeSpec.template.spec.replicatedJobs.*.template"
_PATCH = "spec.runtimePatches.*.trainingRuntimeSpec.template"
FIELDS = METADATA | Fields(
    mapped=(
        "spec.activeDeadlineSeconds",
        "spec.initializer.dataset.env",
        "spec.initializer.dataset.secretRef",
        "spec.initializer.dataset.storageUri",
        "spec.initializer.model.env",
        "spec.initializer.model.secretRef",
        "spec.initializer.model.storageUri",
        "spec.managedBy",
        "spec.runtimeRef.apiGroup",
        "spec.runtimeRef.kind",
        "spec.runtimeRef.name",
        f"{_PATCH}.metadata.labels",
        f"{_PATCH}.metadata.annotations",
        f"{_PATCH}.spec.replicatedJobs.*.name",
        f"{_POD}.metadata.labels",
        f"{_POD}.metadata.annotations",
        f"{_POD}.spec.template.metadata.labels",
        f"{_POD}.spec.template.metadata.annotations",
        f"{_POD}.spec.template.spec",
        "spec.suspend",
        "spec.trainer.args",
        "spec.trainer.command",
        "spec.trainer.env",
        "spec.trainer.image",
        "spec.trainer.numNodes",
        "spec.trainer.numProcPerNode",
        "spec.trainer.resourcesPerNode",
    ),
    no_effect={
        "spec.runtimePatches.*.manager": "it only names who wrote the patch",
        "spec.runtimePatches.*.time": "it only says when the patch was written",
        f"{_PATCH}.metadata": "the Trainer uses only labels and annotations",
        f"{_POD}.metadata": "the Trainer uses only labels and annotations",
        f"{_POD}.spec.template.metadata": "the Trainer uses only labels and annotations",
    },
)
RUNTIME_FIELDS = METADATA | Fields(
    mapped=(
        "spec.mlPolicy.numNodes",
        "spec.mlPolicy.jax",
        "spec.mlPolicy.mpi.mpiImplementation",
        "spec.mlPolicy.mpi.numProcPerNode",
        "spec.mlPolicy.mpi.runLauncherAsNode",
        "spec.mlPolicy.mpi.sshAuthMountPath",
        "spec.mlPolicy.torch",
        "spec.mlPolicy.torch.envInjection.targets.*.containerNames",
        "spec.mlPolicy.torch.envInjection.targets.*.jobName",
        "spec.mlPolicy.xgboost",
        "spec.template.metadata.annotations",
        "spec.template.metadata.labels",
        "spec.template.spec",
    ),
    no_effect={
        "spec.podGroupPolicy": _SCHEDULING,
        "spec.template.metadata": "the Trainer uses only labels and annotations",
    },
    refused={
        "spec.mlPolicy.flux": "jobs with Flux are not supported: use a runtime with torch, jax, mpi or xgboost, "
        "or one without a policy",
    },
)
"""Fields of a runtime. Those of its JobSet are below `spec.template.spec`."""

KINDS = (Kind(API_VERSION, "TrainJob", "trainjobs", FIELDS, convert, needs=needs),)
