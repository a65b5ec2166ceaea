"""SSH between the tasks of a job with the runtime mpi: mpirun in the launcher starts processes in the workers by ssh.

Every submission has a key pair of its own, in the Secret `{job}-ssh`. It is the key of the launcher and of the sshd of
each worker.
"""

import base64

import msgspec

from windlass.discovery import mpi
from windlass.model import names, role_names
from windlass.model.base import Json, manifest
from windlass.model.feature_annotations import Runtime
from windlass.model.job import Job
from windlass.render import helper_pods, ssh_scripts
from windlass.render.framework import completion

_VOLUME = "windlass-ssh"
_STATE_VOLUME = "windlass-ssh-state"
_FILE_MODE = 0o444
"""All users of the pod can read the files, because the user that an image sets is not known here."""
_SCRIPT_MODE = 0o555
_SSH = f"{ssh_scripts.FOLDER}/ssh"
_VARIABLES = {
    "OMPI_MCA_plm_rsh_agent": _SSH,
    "PRTE_MCA_plm_ssh_agent": _SSH,
    "HYDRA_LAUNCHER_EXEC": _SSH,
    "I_MPI_HYDRA_BOOTSTRAP_EXEC": _SSH,
    # Otherwise processes get the variables of the launcher, e.g. its CUDA_VISIBLE_DEVICES, in place of their task's.
    "HYDRA_ENV": "none",
    # Pods of an embedded cluster share /tmp, and several of them may have the same host name.
    "OMPI_MCA_orte_tmpdir_base": ssh_scripts.STATE_FOLDER,
    "PRTE_MCA_prte_tmpdir_base": ssh_scripts.STATE_FOLDER,
    # Most images of MPI run as root, which Open MPI rejects otherwise.
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
_POD_IP: Json = {
    "name": ssh_scripts.POD_IP_VARIABLE,
    "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
}
_DESCRIPTION = "SSH key of the tasks of the job, generated for this submission or rendering"


class KeyPair(msgspec.Struct, frozen=True):
    private: str
    """The private key in the format of OpenSSH."""
    public: str
    """Type and key, e.g. `ssh-ed25519 AAAA…`."""

    def __repr__(self) -> str:
        return "KeyPair(…)"


def is_needed(job: Job) -> bool:
    """Return whether the tasks of the job connect to each other by ssh."""
    return job.runtime is Runtime.MPI


def has_key(job: Job) -> bool:
    """Return whether the job has a Secret with an SSH key."""
    return is_needed(job) or job.annotations.get(names.SSH_KEY_ANNOTATION) == "true"


def secret(job: Job, key: KeyPair | None) -> Json:
    """Return the Secret. Without a key it has only the scripts, for a plan that is not applied."""
    metadata = helper_pods.metadata(job, names.ssh_secret_name(job.name))
    metadata["annotations"] = {"kubernetes.io/description": _DESCRIPTION}
    files = dict(ssh_scripts.SCRIPTS)
    if key is not None:
        files |= {
            ssh_scripts.KEY: key.private,
            ssh_scripts.AUTHORIZED_KEYS: f"{key.public}\n",
            ssh_scripts.KNOWN_HOSTS: f"{mpi.HOST_KEY_ALIAS} {key.public}\n",
        }
    data = {name: base64.b64encode(text.encode()).decode() for name, text in sorted(files.items())}
    return manifest("v1", "Secret", metadata, type="Opaque", data=data)


def with_ssh(template: Json, job: Job, role: str) -> Json:
    """Add the key, its variables and the number of slots to the pod template of a role of an MPI job.

    Workers without a command run sshd, and the command of a launcher finds ssh in its PATH.
    """
    if not is_needed(job) or not role_names.is_member(role):
        return template
    spec = template["spec"]
    main, *others = spec["containers"]
    changed = {
        **template,
        "spec": {
            **spec,
            "containers": [_with_ssh(main, job, role), *others],
            "volumes": [*_volumes(job.name), *(spec.get("volumes") or ())],
        },
    }
    slots = job.roles[role].slots or job.roles[role].processes_per_task or job.processes_per_task
    if slots is None:
        return changed
    metadata = template.get("metadata") or {}
    annotations = {names.SLOTS_ANNOTATION: str(slots), **(metadata.get("annotations") or {})}
    return {**changed, "metadata": {**metadata, "annotations": annotations}}


def _with_ssh(container: Json, job: Job, role: str) -> Json:
    own_names = {variable.get("name") for variable in container.get("env") or ()}
    variables = [*({"name": name, "value": value} for name, value in _VARIABLES.items()), _POD_IP]
    changed = {
        **container,
        "env": [
            *(variable for variable in variables if variable["name"] not in own_names),
            *(container.get("env") or ()),
        ],
        "volumeMounts": [*_mounts(), *(container.get("volumeMounts") or ())],
    }
    if completion.is_ssh_server(job, role):
        changed["command"] = [f"{ssh_scripts.FOLDER}/sshd"]
        changed.pop("args", None)
    elif role in completion.MPI_LEADERS and container.get("command"):
        changed["command"] = [f"{ssh_scripts.FOLDER}/launch", *container["command"]]
    return changed


def _volumes(job: str) -> list[Json]:
    files = (*ssh_scripts.SCRIPTS, ssh_scripts.KEY, ssh_scripts.AUTHORIZED_KEYS, ssh_scripts.KNOWN_HOSTS)
    items = [
        {"key": name, "path": name, "mode": _SCRIPT_MODE if name in ssh_scripts.SCRIPTS else _FILE_MODE}
        for name in files
    ]
    return [
        {"name": _VOLUME, "secret": {"secretName": names.ssh_secret_name(job), "items": items}},
        {"name": _STATE_VOLUME, "emptyDir": {"medium": "Memory"}},
    ]


def _mounts() -> list[Json]:
    return [
        {"name": _VOLUME, "mountPath": ssh_scripts.FOLDER, "readOnly": True},
        {"name": _STATE_VOLUME, "mountPath": ssh_scripts.STATE_FOLDER},
        {
            "name": _STATE_VOLUME,
            "mountPath": ssh_scripts.PRIVILEGE_SEPARATION_FOLDER,
            "subPath": "sshd",
        },
    ]
