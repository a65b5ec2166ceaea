"""TFJobs: with and without chief, parameter servers and evaluators."""

from typing import Final

import msgspec

from agreement.generate import training
from agreement.generate.drafts import Draft, Drawn, Generator
from windlass.model.base import Json

_CONTAINER: Final = "tensorflow"
_PORT: Final = "tfjob-port"


def _draw(draft: Draft) -> Drawn:
    policy = training.run_policy(draft)
    counts: dict[str, int] = {}
    if draft.has("Chief", 0.25):
        counts["Chief"] = 1
    elif draft.has("Master", 0.08):
        counts["Master"] = 1
    if draft.has("PS", 0.4):
        counts["PS"] = draft.number(1, 2)
    if draft.has("Evaluator", 0.15):
        counts["Evaluator"] = 1
    if not counts or not draft.has("no Worker", 0.05):
        counts["Worker"] = draft.number(1, 3)
    if not {"Chief", "Master"} & counts.keys():
        draft.features.add("no Chief")
    specs = {role: training.replicas(draft, count, _CONTAINER, _PORT) for role, count in counts.items()}
    spec: Json = {"tfReplicaSpecs": specs}
    if policy:
        spec["runPolicy"] = policy
    if draft.has("successPolicy: AllWorkers", 0.2):
        spec["successPolicy"] = "AllWorkers"
    if draft.has("enableDynamicWorker", 0.1):
        spec["enableDynamicWorker"] = True
    return msgspec.structs.replace(training.play(draft, specs, policy), spec=spec)


GENERATOR: Final = Generator(
    "TFJob",
    "kubeflow.org/v1",
    (
        *training.RUN_POLICY_FEATURES,
        "Chief",
        "Master",
        "PS",
        "Evaluator",
        "no Worker",
        "no Chief",
        "successPolicy: AllWorkers",
        "enableDynamicWorker",
    ),
    _draw,
)
