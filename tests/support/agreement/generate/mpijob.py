"""MPIJobs of the mpi-operator (v2beta1). The launcher is a Job, whose retries are delayed by 10 s and more."""

from typing import Final

from agreement.generate.drafts import HAPPENINGS, Draft, Drawn, Generator, template
from windlass.model.base import Json

IMPLEMENTATIONS: Final = ("OpenMPI", "Intel", "MPICH")
DEADLINE: Final = 20
MAX_FAILURES: Final = 3


def _draw(draft: Draft) -> Drawn:
    spec: Json = {}
    policy = _run_policy(draft)
    if policy:
        spec["runPolicy"] = policy
    if draft.has("slotsPerWorker", 0.5):
        spec["slotsPerWorker"] = draft.number(1, 4)
    if draft.has("runLauncherAsWorker", 0.2):
        spec["runLauncherAsWorker"] = True
    if draft.random.random() < 0.5:
        spec["mpiImplementation"] = draft.one_of("mpiImplementation", IMPLEMENTATIONS)
    if draft.has("sshAuthMountPath", 0.1):
        spec["sshAuthMountPath"] = "/home/mpiuser/.ssh"
    if draft.has("launcherCreationPolicy: WaitForWorkersReady", 0.25):
        spec["launcherCreationPolicy"] = "WaitForWorkersReady"
    launcher: Json = {"replicas": 1, "template": template("mpi")}
    if draft.random.random() < 0.85:
        launcher["restartPolicy"] = draft.one_of("launcher restartPolicy", ("Never", "OnFailure"))
    specs = {"Launcher": launcher}
    workers = 0 if draft.has("no Worker", 0.08) else draft.number(1, 2)
    if workers:
        specs["Worker"] = {"replicas": workers, "template": template("mpi")}
        if draft.random.random() < 0.7:
            specs["Worker"]["restartPolicy"] = draft.one_of("worker restartPolicy", ("Never", "OnFailure"))
    spec["mpiReplicaSpecs"] = specs
    waits = policy.get("activeDeadlineSeconds") == DEADLINE
    if not (waits or policy.get("suspend")):
        _happen(draft, workers, launcher.get("restartPolicy", "OnFailure"))
    return Drawn(spec, waits_for_deadline=waits and not policy.get("suspend"))


def _run_policy(draft: Draft) -> Json:
    policy: Json = {}
    if draft.random.random() < 0.8:
        policy["cleanPodPolicy"] = draft.one_of("cleanPodPolicy", ("None", "Running", "All"))
    if draft.has("backoffLimit 0", 0.15):
        policy["backoffLimit"] = 0
    elif draft.has("backoffLimit", 0.6):
        policy["backoffLimit"] = draft.number(1, 2)
    if draft.has("activeDeadlineSeconds reached", 0.03):
        policy["activeDeadlineSeconds"] = DEADLINE
    elif draft.has("activeDeadlineSeconds", 0.08):
        policy["activeDeadlineSeconds"] = 36000
    if draft.has("suspend", 0.03):
        policy["suspend"] = True
    if draft.has("managedBy", 0.05):
        policy["managedBy"] = "kubeflow.org/mpi-operator"
    if draft.has("schedulingPolicy", 0.06):
        policy["schedulingPolicy"] = {"minAvailable": 2, "queue": "default"}
    return policy


def _happen(draft: Draft, workers: int, launcher_policy: str) -> None:
    failures = 0
    for _ in range(draft.number(1, 4)):
        if workers and draft.has("worker fails", 0.3):
            draft.happen("worker", draft.number(0, workers - 1))
        elif launcher_policy == "OnFailure" and draft.has("container restart", 0.6):
            draft.exit("launcher", 0, draft.pick((1, 137)))
        elif failures < MAX_FAILURES:
            draft.happen("launcher", 0, HAPPENINGS[1:])
            failures += 1
    if draft.wanted in HAPPENINGS and draft.wanted not in draft.features:
        draft.happen("launcher", 0)


GENERATOR: Final = Generator(
    "MPIJob",
    "kubeflow.org/v2beta1",
    (
        *(f"cleanPodPolicy: {value}" for value in ("None", "Running", "All")),
        *(f"launcher restartPolicy: {value}" for value in ("Never", "OnFailure")),
        *(f"worker restartPolicy: {value}" for value in ("Never", "OnFailure")),
        *(f"mpiImplementation: {value}" for value in IMPLEMENTATIONS),
        "backoffLimit 0",
        "backoffLimit",
        "activeDeadlineSeconds reached",
        "activeDeadlineSeconds",
        "suspend",
        "managedBy",
        "schedulingPolicy",
        "slotsPerWorker",
        "runLauncherAsWorker",
        "sshAuthMountPath",
        "launcherCreationPolicy: WaitForWorkersReady",
        "no Worker",
        "worker fails",
        "container restart",
        *HAPPENINGS,
    ),
    _draw,
)
