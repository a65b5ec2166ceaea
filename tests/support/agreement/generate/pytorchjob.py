"""PyTorchJobs: with and without master, and elastic ones."""

from typing import Final

import msgspec

from agreement.generate import training
from agreement.generate.drafts import Draft, Drawn, Generator
from windlass.model.base import Json

_CONTAINER: Final = "pytorch"
_PORT: Final = "pytorchjob-port"


def _draw(draft: Draft) -> Drawn:
    policy = training.run_policy(draft)
    counts: dict[str, int] = {}
    is_elastic = draft.has("elasticPolicy", 0.15)
    if not is_elastic and draft.has("Master", 0.6):
        counts["Master"] = 1
    if not counts or not draft.has("no Worker", 0.1):
        counts["Worker"] = draft.number(1, 3)
    if "Master" not in counts:
        draft.features.add("no Master")
    specs = {role: training.replicas(draft, count, _CONTAINER, _PORT) for role, count in counts.items()}
    spec: Json = {"pytorchReplicaSpecs": specs}
    if policy:
        spec["runPolicy"] = policy
    if is_elastic:
        workers = counts["Worker"]
        elastic: Json = {"minReplicas": 1, "maxReplicas": workers + 1} if draft.random.random() < 0.7 else {}
        if draft.random.random() < 0.5:
            elastic |= {"maxRestarts": 3, "rdzvBackend": "c10d"}
        if draft.random.random() < 0.3:
            elastic["rdzvConf"] = [{"key": "timeout", "value": "60"}, {"key": "read_timeout", "value": "30"}]
        spec["elasticPolicy"] = elastic
    if draft.has("nprocPerNode", 0.25):
        spec["nprocPerNode"] = draft.pick(("auto", "2", "gpu"))
    return msgspec.structs.replace(training.play(draft, specs, policy), spec=spec)


GENERATOR: Final = Generator(
    "PyTorchJob",
    "kubeflow.org/v1",
    (
        *training.RUN_POLICY_FEATURES,
        "Master",
        "no Master",
        "no Worker",
        "elasticPolicy",
        "nprocPerNode",
    ),
    _draw,
)
