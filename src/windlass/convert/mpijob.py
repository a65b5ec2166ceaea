"""MPIJob of the MPI operator (kubeflow.org/v2beta1) and of the training operator (kubeflow.org/v1).

In v2beta1 the launcher is a Kubernetes Job, whose backoffLimit, 6 by default, counts failed pods and container
restarts, and mpirun reaches the workers by ssh. In v1 the launcher is a pod, and mpirun reaches the workers by
`kubectl exec`.
"""

from collections.abc import Mapping
from typing import Any

from windlass.convert import job_rules, pod_templates, training_operator
from windlass.convert.conversion import Draft, Keys
from windlass.convert.fields import Fields, Kind
from windlass.convert.training_operator import NEVER, ON_FAILURE, ReplicaKind, Replicas
from windlass.model import names
from windlass.model.base import Json

_V2 = "kubeflow.org/v2beta1"
_OPERATOR = "kubeflow.org/mpi-operator"
_FIELD = "mpiReplicaSpecs"
_TYPES = ("Launcher", "Worker")
_LAUNCHER, _WORKER = _TYPES
_FOLDER = "/etc/mpi"
_HOSTS, _DISCOVER, _KUBEXEC = "hostfile", "discover_hosts.sh", "kubexec.sh"
_KUBECTL_FOLDER = "/opt/kube"
_KUBECTL_IMAGE = "ghcr.io/kubeflow/training-v1/kubectl-delivery:latest"
_SCRIPT_MODE, _FILE_MODE = 0o555, 0o444
_BACKOFF_LIMIT = 6
_SSH_PATH = "/root/.ssh"
_CONNECTION = "-o ConnectionAttempts=10"
_WITHOUT_GPUS = {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
_VARIABLES: Mapping[str, Mapping[str, str]] = {
    "OpenMPI": {
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_default_hostfile": f"{_FOLDER}/{_HOSTS}",
        "OMPI_MCA_plm_rsh_args": _CONNECTION,
    },
    "Intel": {
        "I_MPI_HYDRA_HOST_FILE": f"{_FOLDER}/{_HOSTS}",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": _CONNECTION,
    },
    "MPICH": {"HYDRA_HOST_FILE": f"{_FOLDER}/{_HOSTS}", "HYDRA_LAUNCH_EXTRA_ARGS": _CONNECTION},
}
_SLOTS_VARIABLE = {"OpenMPI": "OMPI_MCA_orte_set_default_slots", "Intel": "I_MPI_PERHOST"}
_POLICIES = ("AtStartup", "WaitForWorkersReady")

REPLICAS = ReplicaKind(
    _FIELD, _TYPES, "", "", 0, NEVER, replaces_failed_pods=False, default_counts={_WORKER: 0}
)


# kubeflow.org/v2beta1


def convert_v2(draft: Draft) -> None:
    draft.put(("runtime",), "plain", ("kind",), "as in the original, mpirun gets its hosts from /etc/mpi")
    replicas = training_operator.put_replicas(draft, REPLICAS)
    launcher = _launcher(draft, replicas, ON_FAILURE)
    implementation = draft.get("mpiImplementation") or "OpenMPI"
    if implementation not in _VARIABLES:
        draft.refuse(("spec", "mpiImplementation"), f"expected one of {', '.join(_VARIABLES)}")
    for each in replicas.values():
        if each.restart_policy not in (NEVER, ON_FAILURE):
            draft.refuse((*each.keys, "restartPolicy"), "expected Never or OnFailure")
    if draft.is_refused or launcher is None:
        return
    for each in replicas.values():
        labels = {"training.kubeflow.org/job-role": each.role}
        draft.merge(("roles", each.role, "pod", "metadata"), {"labels": labels})
    _put_policies_v2(draft, replicas, launcher)
    is_worker = bool(draft.get("runLauncherAsWorker"))
    draft.merge(("roles", launcher.role, "pod", "spec"), {"hostname": f"{draft.name}-launcher"})
    _put_config(draft, replicas, _hosts_v2(draft, replicas, implementation, is_worker=is_worker))
    slots = draft.get("slotsPerWorker")
    variables = {"K_MPI_JOB_ROLE": "launcher", **_VARIABLES[implementation]}
    if implementation in _SLOTS_VARIABLE:
        variables[_SLOTS_VARIABLE[implementation]] = str(1 if slots is None else slots)
    draft.merge(("roles", launcher.role, "env"), {**variables, **({} if is_worker else _WITHOUT_GPUS)})
    _put_ssh(draft, replicas)
    worker = replicas.get(_WORKER)
    if worker is not None:
        draft.merge(("roles", worker.role, "env"), {"K_MPI_JOB_ROLE": "worker"})
        _put_default_command(draft, worker, ["/usr/sbin/sshd", "-De"])
        search = f"{draft.name}.{draft.namespace or names.DEFAULT_NAMESPACE}.svc.cluster.local"
        draft.merge(("roles", worker.role, "pod", "spec"), {"dnsConfig": {"searches": [search]}})
        if (draft.get("launcherCreationPolicy") or _POLICIES[0]) == _POLICIES[1]:
            draft.put(
                ("roles", launcher.role, "after"),
                {worker.role: "Ready"},
                ("spec", "launcherCreationPolicy"),
            )


def _launcher(draft: Draft, replicas: Mapping[str, Replicas], default: str) -> Replicas | None:
    launcher = replicas.get(_LAUNCHER)
    if launcher is None:
        draft.refuse(("spec", _FIELD), "an MPIJob needs a Launcher: add one")
        return None
    if launcher.count != 1:
        draft.refuse((*launcher.keys, "replicas"), f"found {launcher.count}, but a job has one launcher")
    given = draft.get(*launcher.keys[1:], "restartPolicy")
    if not given and default != NEVER:
        draft.merge(("roles", launcher.role, "pod", "spec"), {"restartPolicy": default})
        return Replicas(_LAUNCHER, launcher.role, launcher.count, default, launcher.port, launcher.keys)
    return launcher


def _put_policies_v2(draft: Draft, replicas: Mapping[str, Replicas], launcher: Replicas) -> None:
    """Put the policies of the launcher's Job. Failed workers do not end the job, unless they are evicted."""
    keys: Keys = ("spec", "runPolicy")
    limit = draft.get("runPolicy", "backoffLimit")
    limit = _BACKOFF_LIMIT if limit is None else limit
    training_operator.put_run_policy(draft, None, (_OPERATOR,), deletes_all=False)
    draft.put(("roles", launcher.role, "completion"), {"minFailedTaskCount": 1, "minSucceededTaskCount": 1})
    draft.framework_role(
        launcher.role,
        {
            "task": {
                "retryPolicy": {
                    "fancyRetryPolicy": False,
                    "maxRetryCount": limit,
                    "retryBackoff": {**job_rules.BACKOFF, "maxSec": 360},
                }
            }
        },
    )
    if launcher.restart_policy == ON_FAILURE:
        rule = {
            "name": "backoffLimit",
            "taskRoles": [launcher.role],
            "minContainerRestartCount": max(1, limit),
            "phases": ["Running", "Pending"],
        }
        draft.framework({"completionPolicies": [rule]})
    draft.note((*keys, "backoffLimit"), f"the launcher may fail {limit} times, as the Job of the original")
    if draft.get("runPolicy", "ttlSecondsAfterFinished") is not None:
        draft.note(
            (*keys, "ttlSecondsAfterFinished"), "the whole job is deleted; the original deletes its launcher"
        )
    worker = replicas.get(_WORKER)
    if worker is None:
        return
    draft.put(
        ("roles", worker.role, "completion"),
        {"minFailedTaskCount": -1, "minSucceededTaskCount": -1},
        worker.keys,
        "the launcher decides, unless a worker is evicted",
    )
    evicted = {
        "phrase": "Evicted",
        "type": {"attributes": ["Permanent"]},
        "podPatterns": [{"reasonRegex": "^Evicted$"}],
    }
    deleted = {
        "phrase": "PodDeleted",
        "type": {"attributes": ["Transient"]},
        "codeRanges": [{"min": _DELETED, "max": _DELETED}],
    }
    # A pod whose node is lost gets this condition, and is then deleted.
    disrupted = {
        "phrase": "PodDisrupted",
        "type": {"attributes": ["Transient"]},
        "conditionTypes": ["DisruptionTarget"],
    }
    draft.framework_role(
        worker.role,
        {
            "task": {
                "retryPolicy": {
                    "fancyRetryPolicy": True,
                    "maxRetryCount": 0,
                    "maxTransientRetryCount": None,
                    "retryBackoff": None,
                },
                # The last class matches all other failures: none of them is transient.
                "podFailureSpec": [evicted, deleted, disrupted, {"type": {"attributes": []}}],
            }
        },
    )
    rule = {"name": "evicted", "taskRoles": [worker.role], "minFailedTaskCount": 1, "phrases": ["Evicted"]}
    draft.framework({"completionPolicies": [rule]})


_DELETED = -101
"""Completion code of a pod that somebody else deleted."""


def _hosts_v2(
    draft: Draft, replicas: Mapping[str, Replicas], implementation: str, *, is_worker: bool
) -> list[str]:
    """Return the lines of the host file."""
    slots = draft.get("slotsPerWorker")
    suffix = f"{' slots=' if implementation == 'OpenMPI' else ':'}{1 if slots is None else slots}"
    return [f"{name}{suffix}" for name in _domain_names(draft, replicas, is_worker=is_worker)]


def _domain_names(draft: Draft, replicas: Mapping[str, Replicas], *, is_worker: bool) -> list[str]:
    # Without a namespace, a name is relative to that of the pod.
    domain = f"{draft.name}.{draft.namespace}.svc" if draft.namespace else draft.name
    worker = replicas.get(_WORKER)
    workers = [] if worker is None else [f"{draft.name}-worker-{index}" for index in range(worker.count)]
    return [f"{name}.{domain}" for name in ([f"{draft.name}-launcher"] if is_worker else []) + workers]


def _put_ssh(draft: Draft, replicas: Mapping[str, Replicas]) -> None:
    """Mount the SSH key, which is generated at submission."""
    path = draft.get("sshAuthMountPath") or _SSH_PATH
    draft.annotate(names.SSH_KEY_ANNOTATION, "true")
    items = [
        {"key": names.SSH_KEY_FILE, "path": "id_rsa"},
        {"key": names.SSH_AUTHORIZED_KEYS_FILE, "path": "id_rsa.pub"},
        {"key": names.SSH_AUTHORIZED_KEYS_FILE, "path": "authorized_keys"},
    ]
    secret: Json = {"secretName": names.ssh_secret_name(draft.name), "items": items}
    if path == _SSH_PATH:
        secret["defaultMode"] = 0o600
    for each in replicas.values():
        pod_templates.add_volume(draft, each.role, {"name": "ssh-auth", "secret": secret}, path)


def _put_default_command(draft: Draft, worker: Replicas, command: list[str]) -> None:
    """Put the command of workers that have none."""
    role = draft.document["roles"][worker.role]
    if role.pop("idle", None) is False:
        role["command"] = command


def _put_config(draft: Draft, replicas: Mapping[str, Replicas], lines: list[str]) -> None:
    """Put the host file and the script that lists the hosts into a ConfigMap, and mount it in the launcher."""
    hosts = [line.split(" ")[0].partition(":")[0] for line in lines]
    script = "".join(f"{line}\n" for line in ("#!/bin/sh", *(f"echo {host}" for host in hosts)))
    files = {_HOSTS: "".join(f"{line}\n" for line in lines), _DISCOVER: script}
    _add_config_map(draft, files)
    draft.note(
        ("spec", _FIELD), f"{_DISCOVER} lists all workers; that of the original lists the running ones"
    )
    _mount_config(draft, replicas[_LAUNCHER], (_HOSTS, _DISCOVER))


def _add_config_map(draft: Draft, files: Mapping[str, str]) -> None:
    metadata = draft.metadata_of(f"{draft.name}-config")
    draft.objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(files)})


def _mount_config(draft: Draft, replicas: Replicas, files: tuple[str, ...]) -> None:
    items = [
        {"key": file, "path": file, "mode": _FILE_MODE if file == _HOSTS else _SCRIPT_MODE} for file in files
    ]
    config = {"name": f"{draft.name}-config", "items": items}
    pod_templates.add_volume(draft, replicas.role, {"name": "mpi-job-config", "configMap": config}, _FOLDER)


# kubeflow.org/v1


def convert_v1(draft: Draft) -> None:
    draft.put(("runtime",), "plain", ("kind",), "as in the original, mpirun gets its hosts from /etc/mpi")
    replicas = training_operator.put_replicas(draft, REPLICAS)
    launcher = _launcher(draft, replicas, NEVER)
    worker = replicas.get(_WORKER)
    for each in replicas.values():
        if each.restart_policy == training_operator.EXIT_CODE:
            draft.refuse(
                (*each.keys, "restartPolicy"),
                "the operator neither restarts nor fails an MPIJob with ExitCode: use Never or OnFailure",
            )
    if draft.is_refused or launcher is None:
        return
    training_operator.put_run_policy(draft, replicas)
    policy = draft.get("cleanPodPolicy")
    if policy:
        training_operator.put_clean_pod_policy(draft, policy, ("spec", "cleanPodPolicy"))
    for each in replicas.values():
        training_operator.put_completion(draft, each, decides=each is launcher)
    _put_kubexec(draft, replicas, launcher)
    if worker is not None:
        role = draft.document["roles"][worker.role]
        if "command" not in role:
            role.pop("idle", None)
            role["command"] = ["sleep", "365d"]
        _mount_config(draft, worker, (_KUBEXEC,))


def _put_kubexec(draft: Draft, replicas: Mapping[str, Replicas], launcher: Replicas) -> None:
    """Let the launcher run processes in the workers by `kubectl exec`."""
    slots, worker = draft.get("slotsPerWorker"), replicas.get(_WORKER)
    workers = [] if worker is None else [f"{draft.name}-worker-{index}" for index in range(worker.count)]
    uses_gpus = _has_gpus(draft.get(*launcher.keys[1:], "template", "spec", "containers"))
    hosts = ([f"{draft.name}-launcher-0"] if uses_gpus else []) + workers
    container = draft.get("mainContainer")
    option = f" --container {container}" if container else ""
    exec_script = (
        "#!/bin/sh\nset -x\nPOD_NAME=$1\nshift\n"
        f'{_KUBECTL_FOLDER}/kubectl exec ${{POD_NAME}}{option} -- /bin/sh -c "$*"'
    )
    files = {
        _HOSTS: "".join(f"{host} slots={1 if slots is None else slots}\n" for host in hosts),
        _DISCOVER: "".join(f"{line}\n" for line in ("#!/bin/sh", *(f"echo {host}" for host in hosts))),
        _KUBEXEC: exec_script,
    }
    _add_config_map(draft, files)
    _mount_config(draft, launcher, (_KUBEXEC, _HOSTS, _DISCOVER))
    script = f"{_FOLDER}/{_KUBEXEC}"
    own = draft.document["roles"][launcher.role].get("env") or {}
    variables: dict[str, Any] = {
        "OMPI_MCA_plm_rsh_agent": script,
        "OMPI_MCA_orte_default_hostfile": f"{_FOLDER}/{_HOSTS}",
        **({} if uses_gpus else _WITHOUT_GPUS),
        "I_MPI_HYDRA_BOOTSTRAP": own.get("I_MPI_HYDRA_BOOTSTRAP", "rsh"),
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": own.get("I_MPI_HYDRA_BOOTSTRAP_EXEC", script),
    }
    draft.merge(("roles", launcher.role, "env"), variables)
    kubectl = {"name": "mpi-job-kubectl", "emptyDir": {}}
    pod_templates.add_volume(draft, launcher.role, kubectl, _KUBECTL_FOLDER)
    pod = ("roles", launcher.role, "pod", "spec")
    amounts = {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}
    delivery = {
        "name": "kubectl-delivery",
        "image": _KUBECTL_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "env": [
            {"name": "TARGET_DIR", "value": _KUBECTL_FOLDER},
            {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        ],
        "volumeMounts": [
            {"name": "mpi-job-kubectl", "mountPath": _KUBECTL_FOLDER},
            {"name": "mpi-job-config", "mountPath": _FOLDER},
        ],
        "resources": {"requests": amounts, "limits": amounts},
    }
    draft.merge(pod, {"initContainers": [delivery]})
    draft.note(
        launcher.keys,
        f"as in the original, an init container copies kubectl from {_KUBECTL_IMAGE}: an embedded cluster needs "
        "a local image of this name",
    )
    if not draft.document["roles"][launcher.role]["pod"]["spec"].get("serviceAccountName"):
        draft.merge(pod, {"serviceAccountName": f"{draft.name}-launcher"})
    _add_permissions(draft, workers)


def _has_gpus(containers: Any) -> bool:
    """Return whether a container has GPU limits; the operator then starts processes in the launcher too."""
    limits = (
        pod_templates.mapping(pod_templates.mapping(each.get("resources")).get("limits"))
        for each in pod_templates.mappings(containers)
    )
    return any(name.endswith(".com/gpu") or "gpu" in name for each in limits for name in each)


def _add_permissions(draft: Draft, workers: list[str]) -> None:
    """Add the service account of the launcher, which may run commands in the workers."""
    name, group = f"{draft.name}-launcher", "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["pods/exec"], "resourceNames": workers, "verbs": ["create"]},
    ]
    subject: Json = {"kind": "ServiceAccount", "name": name}
    if draft.namespace:
        subject["namespace"] = draft.namespace
    metadata = draft.metadata_of(name)
    draft.objects += [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            "subjects": [subject],
        },
    ]


_TYPES_V2: Mapping[str, type] = {
    "slotsPerWorker": int,
    "runLauncherAsWorker": bool,
    "sshAuthMountPath": str,
    "launcherCreationPolicy": str,
    "mpiImplementation": str,
}

KINDS = (
    Kind(
        training_operator.API_VERSION,
        "MPIJob",
        "mpijobs",
        REPLICAS.fields("spec.slotsPerWorker", "spec.cleanPodPolicy", "spec.mainContainer")
        | Fields(
            (), types={"spec.slotsPerWorker": int, "spec.cleanPodPolicy": str, "spec.mainContainer": str}
        ),
        convert_v1,
    ),
    Kind(
        _V2,
        "MPIJob",
        "mpijobs",
        REPLICAS.fields(*(f"spec.{name}" for name in _TYPES_V2))
        | Fields((), types={f"spec.{name}": expected for name, expected in _TYPES_V2.items()}),
        convert_v2,
    ),
)
