"""The strategy of Job: generated labels and selector, immutable template."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors
from windlass.k8s.api_errors import FieldError
from windlass.k8s.label_selectors import from_object
from windlass.localcluster.apiserver.checks import basics, label_selectors, pod_specs
from windlass.localcluster.apiserver.kinds import pod_spec_defaults
from windlass.localcluster.apiserver.strategy import ClusterView, Object, Strategy

_RESTART_POLICIES = ("OnFailure", "Never")
_COMPLETION_MODES = ("Indexed", "NonIndexed")
_UID = "batch.kubernetes.io/controller-uid"
_NAME = "batch.kubernetes.io/job-name"
# The second name of each label is deprecated but still set.
_UID_LABELS = (_UID, "controller-uid")
_NAME_LABELS = (_NAME, "job-name")
_BACKOFF_LIMIT = 6
_NO_BACKOFF_LIMIT = 2**31 - 1
_NOT_NEGATIVE_FIELDS = (
    *("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"),
    *("backoffLimitPerIndex", "maxFailedIndexes"),
)


class JobStrategy(Strategy):
    has_generation = True
    # Kubernetes orphans the pods of a deleted job by default, for compatibility with its first releases.
    default_propagation = "Orphan"

    def default(self, new: Object) -> None:
        spec = new.setdefault("spec", {})
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)
        has_index_limits = spec.get("backoffLimitPerIndex") is not None
        spec.setdefault("backoffLimit", _NO_BACKOFF_LIMIT if has_index_limits else _BACKOFF_LIMIT)
        replaces_failed_only = spec.get("podFailurePolicy") is not None
        spec.setdefault("podReplacementPolicy", "Failed" if replaces_failed_only else "TerminatingOrFailed")
        pod_spec_defaults.set_defaults(spec.setdefault("template", {}).setdefault("spec", {}))

    def prepare_create(self, new: Object, cluster: ClusterView) -> None:
        if not new["spec"].get("manualSelector"):
            _generate_labels(new)
        _copy_template_labels(new)
        new["status"] = {}

    def prepare_update(self, new: Object, old: Object, cluster: ClusterView) -> None:
        _copy_template_labels(new)

    def validate_create(self, new: Object) -> Iterator[FieldError]:
        spec = new.get("spec") or {}
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
        if not spec.get("manualSelector"):
            yield from _generated_label_errors(new["metadata"], spec.get("selector"), labels or {})

    def validate(self, new: Object) -> Iterator[FieldError]:
        spec = new.get("spec") or {}
        template = spec.get("template") or {}
        labels = (template.get("metadata") or {}).get("labels")
        yield from basics.not_negative(spec, "spec", *_NOT_NEGATIVE_FIELDS)
        yield from _mode_errors(spec)
        yield from pod_specs.template_errors(template, "spec.template")
        yield from _restart_policy_errors((template.get("spec") or {}).get("restartPolicy"))
        if spec.get("selector") is None:
            yield api_errors.required("spec.selector")
        yield from label_selectors.errors(spec.get("selector") or {}, "spec.selector")
        yield from label_selectors.mismatch(spec.get("selector"), labels, "spec.template.metadata.labels")

    def validate_update(self, new: Object, old: Object) -> Iterator[FieldError]:
        spec, former = new["spec"], old["spec"]
        is_elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get(
            "parallelism"
        )
        fixed = ("selector", "template", "completionMode", "podFailurePolicy", "backoffLimitPerIndex")
        for key in fixed if is_elastic else ("completions", *fixed):
            yield from basics.immutable(f"spec.{key}", spec.get(key), former.get(key))

    def validate_status(self, new: Object, old: Object) -> Iterator[FieldError]:
        yield from basics.not_negative(new.get("status") or {}, "status", "active", "succeeded", "failed")


def _generate_labels(new: Object) -> None:
    spec, meta = new["spec"], new["metadata"]
    labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
    for label in _UID_LABELS:
        labels.setdefault(label, meta["uid"])
    for label in _NAME_LABELS:
        labels.setdefault(label, meta.get("name", ""))
    spec.setdefault("selector", {}).setdefault("matchLabels", {}).setdefault(_UID, meta["uid"])


def _copy_template_labels(new: Object) -> None:
    """Copy the labels of the template to a job without labels."""
    labels = (new["spec"]["template"].get("metadata") or {}).get("labels")
    if labels and not new["metadata"].get("labels"):
        new["metadata"]["labels"] = dict(labels)


def _generated_label_errors(
    meta: Mapping[str, Any], selector: Mapping[str, Any] | None, labels: Mapping[str, str]
) -> Iterator[FieldError]:
    """Check that the template has the labels that the server generates, and that the selector matches them."""
    expected = dict.fromkeys(_UID_LABELS, meta["uid"]) | dict.fromkeys(_NAME_LABELS, meta.get("name", ""))
    for label, value in expected.items():
        field, problem = f"spec.template.metadata.labels[{label}]", f"must be '{value}'"
        if label not in labels:
            yield api_errors.required(field, problem)
        elif labels[label] != value:
            yield api_errors.invalid_value(field, labels, problem)
    if selector is not None and not from_object(selector).matches(expected):
        yield api_errors.invalid_value("spec.selector", selector, "`selector` not auto-generated")


def _mode_errors(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    mode = spec.get("completionMode")
    yield from basics.required_choice(spec, "spec", "completionMode", _COMPLETION_MODES)
    if mode == "Indexed" and spec.get("completions") is None:
        yield api_errors.required("spec.completions", "when completion mode is Indexed")
    if spec.get("backoffLimitPerIndex") is not None and mode != "Indexed":
        yield api_errors.required("spec.backoffLimitPerIndex", "requires indexed completion mode")


def _restart_policy_errors(policy: str | None) -> Iterator[FieldError]:
    field = "spec.template.spec.restartPolicy"
    if policy in (None, "Always"):
        yield api_errors.required(field, 'valid values: "OnFailure", "Never"')
    elif policy not in _RESTART_POLICIES:
        yield api_errors.not_supported(field, policy, _RESTART_POLICIES)
