"""TFJob of the training operator.

With a chief or master, its success is that of the job. Otherwise the job succeeds with worker-0, whatever the other
workers do, unless `successPolicy` is AllWorkers. Any failed pod that is not restarted fails the job.
"""

from windlass.convert import training_environment as environment
from windlass.convert import training_operator
from windlass.convert.conversion import Draft
from windlass.convert.fields import Fields, Kind
from windlass.convert.training_operator import ReplicaKind, Replicas
from windlass.model import names
from windlass.model.base import Json

REPLICAS = ReplicaKind(
    field="tfReplicaSpecs",
    types=("Chief", "Master", "PS", "Worker", "Evaluator"),
    container="tensorflow",
    port_name="tfjob-port",
    port=names.DEFAULT_PORT,
    restart_policy=training_operator.NEVER,
)


def convert(draft: Draft) -> None:
    draft.put(("runtime",), "tensorflow", ("kind",))
    replicas = training_operator.put_replicas(draft, REPLICAS)
    training_operator.put_run_policy(draft, replicas)
    dynamic, policy = bool(draft.get("enableDynamicWorker")), draft.get("successPolicy")
    chiefs = [replicas[each] for each in ("Chief", "Master") if each in replicas]
    if len(chiefs) > 1:
        draft.refuse(("spec", REPLICAS.field, "Master"), "found Chief and Master: remove one of them")
    for each in replicas.values():
        training_operator.put_completion(
            draft,
            each,
            decides=each in chiefs,
            may_fail=dynamic and each.type == "Worker",
        )
    worker = replicas.get("Worker")
    if dynamic and worker is not None:
        _put_dynamic_worker(draft, worker, decides=not chiefs)
    if policy not in (None, "", "AllWorkers"):
        draft.refuse(("spec", "successPolicy"), f"found {policy}, expected AllWorkers, or no successPolicy")
    environment.put_tf_config(draft, replicas, is_dynamic=dynamic)
    if chiefs or worker is None:
        return
    if policy == "AllWorkers":
        training_operator.put_completion(
            draft, worker, decides=True, may_fail=dynamic, comment="successPolicy: AllWorkers"
        )
    elif worker.count and not dynamic:
        draft.put(
            ("completion",),
            {"task": f"{worker.role}-0"},
            ("spec", "successPolicy"),
            comment="without a chief, worker-0 decides the success of a TFJob",
        )


def _put_dynamic_worker(draft: Draft, worker: Replicas, *, decides: bool) -> None:
    """Put what happens to workers that may fail. The operator goes on without failed ones, and creates removed ones
    again."""
    training_operator.fail_on_permanent_exit_code(draft, worker)
    if worker.restart_policy == training_operator.NEVER:
        training_operator.replace_only_removed_pods(draft, worker, training_operator.EVICTED)
    if decides:
        rules: list[Json] = [
            {
                "name": "all workers ended",
                "taskRoles": [worker.role],
                "minFailedTaskCount": 1,
                "afterAll": True,
            }
        ]
        if draft.get("successPolicy") != "AllWorkers":
            first = {"name": f"{worker.role}-0 succeeded", "taskRoles": [worker.role], "taskIndexes": "0"}
            rules.insert(0, {**first, "minSucceededTaskCount": 1})
        draft.framework({"completionPolicies": rules})
        draft.note(
            ("spec", "enableDynamicWorker"),
            "when all workers have ended and one has failed, the job fails; the original never ends",
        )


KINDS = (
    Kind(
        training_operator.API_VERSION,
        "TFJob",
        "tfjobs",
        REPLICAS.fields("spec.successPolicy", "spec.enableDynamicWorker")
        | Fields((), types={"spec.successPolicy": str, "spec.enableDynamicWorker": bool}),
        convert,
    ),
)
