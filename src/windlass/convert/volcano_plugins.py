"""Plugins of a Volcano Job: what they add to its pods, and the objects that they create.

Every pod of a task has the same template, in which `{{FC_TASK_INDEX}}` stands for its index.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from windlass.convert.conversion import Draft
from windlass.convert.volcano_tasks import Task
from windlass.model import names
from windlass.model.base import Json

_INDEX = "{{FC_TASK_INDEX}}"
_HOSTS_FOLDER = "/etc/volcano"
_SSH_FOLDER = "/root/.ssh"
_REQUIRED = {
    "tensorflow": ("svc",),
    "mpi": ("svc", "ssh"),
    "pytorch": ("svc",),
    "ray": ("svc",),
}
"""Plugins that others imply."""
_DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "env": {},
    "svc": {"publish-not-ready-addresses": "false", "disable-network-policy": "false"},
    "ssh": {"ssh-key-file-path": _SSH_FOLDER, "ssh-private-key": "", "ssh-public-key": "", "ssh-port": "22"},
    "pytorch": {
        "master": "master",
        "worker": "worker",
        "port": "23456",
        "wait-master-enabled": "false",
        "wait-master-timeout": "300",
        "wait-master-image": "busybox:1.36.1",
    },
    "tensorflow": {
        "ps": "ps",
        "worker": "worker",
        "chief": "chief",
        "evaluator": "evaluator",
        "port": str(names.DEFAULT_PORT),
    },
    "mpi": {"master": "master", "worker": "worker", "port": "22"},
    "ray": {
        "head": "head",
        "headContainer": "head",
        "worker": "worker",
        "workerContainer": "worker",
        "port": "6379",
        "dashboardPort": "8265",
        "clientPort": "10001",
    },
    "hcclrank": {"master": "master", "worker": "worker"},
}
"""Arguments of each plugin and their defaults."""

_MAX_PORT = 65535


class Plugins:
    """The plugins of a job."""

    def __init__(self, draft: Draft, tasks: Sequence[Task]) -> None:
        self._draft = draft
        self._job = draft.name
        self._tasks = tasks
        self._by_name = {task.name: task for task in tasks}
        given: Json = dict(draft.get("plugins") or {})
        for name in tuple(given):
            for required in _REQUIRED.get(name, ()):
                given.setdefault(required, [])
        self._arguments = {name: self._parse(name, given[name] or ()) for name in _DEFAULTS if name in given}
        for name in given:
            if name not in _DEFAULTS:
                self._refuse(
                    name,
                    f"unknown plugin: expected {', '.join(_DEFAULTS)}, or set what it adds in the pod templates",
                )
        master = self._arguments.get("mpi", {}).get("master")
        if master is not None and master not in self._by_name:
            self._refuse("mpi", f"no task is named {master}: name the task of mpirun with --master")
        head = self._arguments.get("ray", {}).get("head")
        if head is not None and head not in self._by_name:
            self._refuse("ray", f"no task is named {head}: name the task of the head with --head")

    def _refuse(self, plugin: str, advice: str) -> None:
        self._draft.refuse(("spec", "plugins", plugin), advice)

    def _parse(self, plugin: str, arguments: Sequence[str]) -> dict[str, str]:
        """Return the arguments, written as for Go: `--name=value`, `--name value`, or `--name` for true."""
        found = dict(_DEFAULTS[plugin])
        words = iter(arguments)
        for word in words:
            name, separator, value = str(word).lstrip("-").partition("=")
            if not str(word).startswith("-") or name not in found:
                self._refuse(plugin, f"unknown argument {word}: expected {', '.join(found) or 'none'}")
                continue
            if not separator:
                value = "true" if found[name] in ("true", "false") else str(next(words, ""))
            found[name] = value
        for name in ("port", "dashboardPort", "clientPort", "ssh-port"):
            text = found.get(name, "1")
            if not text.isdecimal() or not 0 < int(text) <= _MAX_PORT:
                self._refuse(plugin, f"{name}: found {text}, expected a port")
                found[name] = _DEFAULTS[plugin][name]
        return found

    # Pods

    def with_plugins(self, template: Json, task: Task) -> Json:
        """Return a pod template with what the plugins add."""
        changes: Mapping[str, Callable[[Json, Task, Mapping[str, str]], Json]] = {
            "env": self._with_env,
            "svc": self._with_svc,
            "ssh": self._with_ssh,
            "pytorch": self._with_pytorch,
            "tensorflow": self._with_tensorflow,
            "mpi": self._with_mpi,
            "ray": self._with_ray,
            "hcclrank": self._with_hcclrank,
        }
        for name, change in changes.items():
            if name in self._arguments:
                template = change(template, task, self._arguments[name])
        return template

    def _with_env(self, template: Json, _task: Task, _: Mapping[str, str]) -> Json:
        return _with_variables(template, _values(VK_TASK_INDEX=_INDEX, VC_TASK_INDEX=_INDEX))

    def _with_svc(self, template: Json, _task: Task, _: Mapping[str, str]) -> Json:
        name = f"{self._job}-svc"
        variables = [
            {"name": key, "valueFrom": {"configMapKeyRef": {"name": name, "key": key}}}
            for each in self._tasks
            for key in (f"VC_{_shell_name(each)}_HOSTS", f"VC_{_shell_name(each)}_NUM")
        ]
        volume = {"name": name, "configMap": {"name": name}}
        mount = {"name": name, "mountPath": _HOSTS_FOLDER}
        return _with_volume(_with_variables(template, variables), volume, mount)

    def _with_ssh(self, template: Json, _task: Task, arguments: Mapping[str, str]) -> Json:
        has_own_key = bool(arguments["ssh-private-key"])
        private = "id_rsa" if has_own_key else names.SSH_KEY_FILE
        public = "id_rsa.pub" if has_own_key else names.SSH_AUTHORIZED_KEYS_FILE
        keys = {"id_rsa": private, "id_rsa.pub": public, "authorized_keys": public}
        items = [{"key": key, "path": path} for path, key in keys.items()]
        folder = arguments["ssh-key-file-path"]
        sources = [
            {"secret": {"name": names.ssh_secret_name(self._job), "items": items}},
            {
                "configMap": {
                    "name": f"{self._job}-ssh-config",
                    "items": [{"key": "config", "path": "config"}],
                }
            },
        ]
        mode = 0o600 if folder == _SSH_FOLDER else 0o644
        name = f"{self._job}-ssh"
        volume = {"name": name, "projected": {"sources": sources, "defaultMode": mode}}
        return _with_volume(template, volume, {"name": name, "mountPath": folder})

    def _with_pytorch(self, template: Json, task: Task, arguments: Mapping[str, str]) -> Json:
        master, worker = (self._by_name.get(arguments[key]) for key in ("master", "worker"))
        if master is None:
            return template
        port = arguments["port"]
        address = (master.host_names(self._job) or [""])[0]
        size = master.replicas + (worker.replicas if worker is not None else 0)
        variables = _values(MASTER_ADDR=address, MASTER_PORT=port, WORLD_SIZE=str(size))
        if task is master:
            variables += _values(RANK="0")
        elif task is worker:
            variables += _values(RANK="{{FC_TASK_INDEX+1}}")
            if arguments["wait-master-enabled"] == "true":
                template = _with_init_container(template, _waiting_container(address, port, arguments))
        template = _with_variables(template, variables, fields=("containers",))
        return _with_port(template, int(port), "pytorchjob-port", fields=("containers",))

    def _with_tensorflow(self, template: Json, task: Task, arguments: Mapping[str, str]) -> Json:
        if len(self._tasks) == 1 and task.replicas == 1:
            return template
        types = {arguments[each]: each for each in ("ps", "worker", "chief", "evaluator")}
        hosts = {
            task_type: [f"{host}:{arguments['port']}" for host in self._by_name[name].host_names(self._job)]
            for name, task_type in types.items()
            if name in self._by_name and self._by_name[name].replicas
        }
        own = {"type": types.get(task.name, task.name), "index": 0}
        text = msgspec.json.encode({"cluster": hosts, "task": own}).decode()
        text = text.removesuffix('"index":0}}') + f'"index":{_INDEX}}}}}'
        return _with_variables(template, _values(TF_CONFIG=text), fields=("containers",))

    def _with_mpi(self, template: Json, task: Task, arguments: Mapping[str, str]) -> Json:
        worker = self._by_name.get(arguments["worker"])
        if task.name == arguments["master"]:
            if worker is None:
                return template
            template = _with_variables(template, _values(MPI_HOST=",".join(worker.host_names(self._job))))
        return _with_port(template, int(arguments["port"]), "mpijob-port")

    def _with_ray(self, template: Json, task: Task, arguments: Mapping[str, str]) -> Json:
        head = self._by_name.get(arguments["head"])
        if head is None:
            return template
        ports = {"gcs": "port", "dashboard": "dashboardPort", "client-server": "clientPort"}

        def change(container: Json) -> Json:
            if task is head and container.get("name") == arguments["headContainer"]:
                for name, argument in ports.items():
                    container = _with_container_port(container, int(arguments[argument]), name)
                options = (
                    f"--port={arguments['port']} --dashboard-port={arguments['dashboardPort']} "
                    f"--ray-client-server-port={arguments['clientPort']}"
                )
                command = f"ray start --head --block --dashboard-host=0.0.0.0 {options}"
            elif task.name == arguments["worker"] and container.get("name") == arguments["workerContainer"]:
                address = (head.host_names(self._job) or [""])[0]
                command = f"ray start --block --address={address}:{arguments['port']}"
            else:
                return container
            return {**container, "command": ["sh", "-c", command]}

        return _with_containers(template, change, ("containers",))

    def _with_hcclrank(self, template: Json, task: Task, arguments: Mapping[str, str]) -> Json:
        key = "hccl/rankIndex"
        metadata: Json = template["metadata"]
        rank = next(
            (
                variable.get("value")
                for container in template["spec"].get("containers") or ()
                for variable in container.get("env") or ()
                if variable.get("name") == "RANK"
            ),
            None,
        )
        if not rank and task.name == arguments["master"]:
            rank = _INDEX
        elif not rank and task.name == arguments["worker"]:
            master = self._by_name.get(arguments["master"])
            rank = f"{{{{FC_TASK_INDEX+{master.replicas if master is not None else 0}}}}}"
        if not rank or metadata["annotations"].get(key):
            return template
        annotations = {**metadata["annotations"], key: rank}
        return {**template, "metadata": {**metadata, "annotations": annotations}}

    # Objects

    def put_objects(self) -> None:
        """Put the ConfigMaps, Secrets and Services that the plugins create."""
        if "svc" in self._arguments:
            self._put_hosts(self._arguments["svc"])
        if "ssh" in self._arguments:
            self._put_ssh(self._arguments["ssh"])
        if "ray" in self._arguments:
            self._put_head_service(self._arguments["ray"])

    def _put_hosts(self, arguments: Mapping[str, str]) -> None:
        data: dict[str, str] = {}
        for task in self._tasks:
            hosts = task.host_names(self._job)
            data[f"{task.name.replace('-', '_')}.host"] = "\n".join(hosts)
            data[f"VC_{_shell_name(task)}_HOSTS"] = ",".join(hosts)
            data[f"VC_{_shell_name(task)}_NUM"] = str(len(hosts))
        self._put("ConfigMap", f"{self._job}-svc", data=data)
        keys = ("spec", "plugins", "svc")
        if arguments["disable-network-policy"] != "true":
            self._draft.note(
                keys,
                "no NetworkPolicy is created, so that other pods can connect to those of the job: append one to the "
                "file if the original's is needed",
            )
        if arguments["publish-not-ready-addresses"] != "true":
            self._draft.note(keys, "the names of pods resolve before the pods are ready")

    def _put_ssh(self, arguments: Mapping[str, str]) -> None:
        config = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
        for task in self._tasks:
            for host in task.host_names(self._job):
                name = host.split(".")[0]
                config += f"Host {name}\n  HostName {host}\n  Port {arguments['ssh-port']}\n"
        self._put("ConfigMap", f"{self._job}-ssh-config", data={"config": config})
        keys = ("spec", "plugins", "ssh")
        if not arguments["ssh-private-key"]:
            self._draft.annotate(names.SSH_KEY_ANNOTATION, "true")
            self._draft.note(keys, "the key is generated at every submission, and is an Ed25519 key")
            return
        data = {"id_rsa": arguments["ssh-private-key"], "id_rsa.pub": arguments["ssh-public-key"]}
        self._put("Secret", names.ssh_secret_name(self._job), stringData=data)

    def _put_head_service(self, arguments: Mapping[str, str]) -> None:
        head = self._by_name.get(arguments["head"])
        if head is None:
            return
        ports = {"gcs": "port", "dashboard": "dashboardPort", "client-server": "clientPort"}
        selector = {names.FRAMEWORK_NAME: self._job, names.TASKROLE_NAME: head.role}
        spec = {
            "selector": selector,
            "ports": [
                {"name": name, "port": int(arguments[argument]), "targetPort": name, "protocol": "TCP"}
                for name, argument in ports.items()
            ],
        }
        self._put("Service", f"{self._job}-head-svc", spec=spec)

    def _put(self, kind: str, name: str, **fields: Any) -> None:
        metadata = self._draft.metadata_of(name)
        self._draft.objects.append({"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields})


def _shell_name(task: Task) -> str:
    return task.name.replace("-", "_").upper()


def _waiting_container(address: str, port: str, arguments: Mapping[str, str]) -> Json:
    """Return the init container that waits for the port of the master."""
    script = f"""\
echo "Waiting for {address}:{port}"
waited=0
until {{ nc -z {address} {port} || echo > /dev/tcp/{address}/{port}; }} 2>/dev/null; do
  if [ $waited -ge {arguments["wait-master-timeout"]} ]; then
    echo "{address}:{port} is not ready after $waited seconds"
    exit 1
  fi
  sleep 2
  waited=$((waited + 2))
done"""
    return {
        "name": "wait-for-master",
        "image": arguments["wait-master-image"],
        "command": ["sh", "-c", script],
    }


# Pod templates

_BOTH = ("containers", "initContainers")


def _values(**values: str) -> list[Json]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _with_containers(template: Json, change: Callable[[Json], Json], fields: Iterable[str] = _BOTH) -> Json:
    spec: Json = template["spec"]
    changed = {field: list(map(change, spec[field])) for field in fields if spec.get(field)}
    return {**template, "spec": {**spec, **changed}}


def _with_variables(template: Json, variables: Sequence[Json], fields: Iterable[str] = _BOTH) -> Json:
    """Append variables to those of the containers, which they override."""
    added = {each["name"] for each in variables}

    def change(container: Json) -> Json:
        kept = [each for each in container.get("env") or () if each.get("name") not in added]
        return {**container, "env": [*kept, *variables]}

    return _with_containers(template, change, fields)


def _with_volume(template: Json, volume: Json, mount: Json) -> Json:
    template = _with_containers(
        template, lambda each: {**each, "volumeMounts": [*(each.get("volumeMounts") or ()), mount]}
    )
    spec: Json = template["spec"]
    return {**template, "spec": {**spec, "volumes": [*(spec.get("volumes") or ()), volume]}}


def _with_init_container(template: Json, container: Json) -> Json:
    spec: Json = template["spec"]
    present = spec.get("initContainers") or ()
    if any(each.get("name") == container["name"] for each in present):
        return template
    return {**template, "spec": {**spec, "initContainers": [*present, container]}}


def _with_port(template: Json, port: int, name: str, fields: Iterable[str] = _BOTH) -> Json:
    return _with_containers(template, lambda each: _with_container_port(each, port, name), fields)


def _with_container_port(container: Json, port: int, name: str) -> Json:
    ports = container.get("ports") or ()
    if any(each.get("containerPort") == port for each in ports):
        return container
    return {**container, "ports": [*ports, {"name": name, "containerPort": port}]}
