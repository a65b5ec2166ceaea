"""What the barrier writes for the containers of its pod, once it knows where everybody is.

framework.json   the Framework, or as much of it as the Gang tells, in the shape of the Framework
injector.sh      exports and prints FB_WORKER_IPS=10.0.0.5,10.0.0.6 and FB_WORKER_ADDRESSES=10.0.0.5:2222,10.0.0.6:2222
cluster.env      the same without printing, for the wrapped command
hostfile         worker-0.pi slots=2
tf_config.json   what TF_CONFIG holds
configfile       10.0.0.5:49866      the workers on the first line
                 10.0.0.4:49867      and the parameter servers on the last
"""

from collections.abc import Iterator

import msgspec

from windlass.discovery import peers as where
from windlass.discovery.tensorflow import TensorFlow
from windlass.model import names, role_names
from windlass.model.base import Json
from windlass.model.gang import GangRole, GangSpec

FRAMEWORK = "framework.json"
INJECTOR = "injector.sh"
HOSTFILE = "hostfile"
TF_CONFIG = "tf_config.json"
LAUNCHER = "launcher"
"""Runs mpirun, and is no host of it where there are others."""


def contents(gang: GangSpec, role: str, index: int, tf_config: str = "") -> dict[str, str]:
    """By the name of the file. A task that was told its TF_CONFIG before finds the same in the file."""
    known = where.by_name_in(gang) if gang.service else where.by_address(gang)
    exports = "".join(_exports(gang))
    return {
        FRAMEWORK: msgspec.json.encode(framework(gang)).decode() + "\n",
        INJECTOR: _injector(gang, exports),
        names.CLUSTER_ENV: exports,
        HOSTFILE: hostfile(gang),
        TF_CONFIG: (tf_config or TensorFlow(known).config(role, index)) + "\n",
    }


def framework(gang: GangSpec) -> Json:
    """What the Gang tells, where a reader of a Framework looks for it."""
    return {
        "kind": names.KIND,
        "metadata": {"name": gang.framework_name, "uid": gang.framework_uid},
        "spec": {"taskRoles": [{"name": role.name, "taskNumber": len(role.members)} for role in gang.roles]},
        "status": {
            "attemptStatus": {
                "instanceUID": gang.attempt_instance_uid,
                "taskRoleStatuses": [
                    {
                        "name": role.name,
                        "taskStatuses": [
                            {"index": index, "attemptStatus": {"podUID": member.pod_uid, "podIP": member.ip}}
                            for index, member in enumerate(role.members)
                        ],
                    }
                    for role in gang.roles
                ],
            }
        },
    }


def _injector(gang: GangSpec, exports: str) -> str:
    """The reference's (statement 48): whoever sources it decides about the ports."""
    printed = (f'echo "{name}=${name}"\n' for role in gang.roles for name in _exported(role))
    return "".join(("#!/bin/sh\n", exports, *printed))


def variables(gang: GangSpec) -> dict[str, str]:
    """What injector.sh exports where nobody decides about the ports."""
    found = {}
    for role in gang.roles:
        ips, addresses = _exported(role)
        found[ips] = ",".join(member.ip for member in role.members)
        found[addresses] = _listed(role)
    return found


def _exports(gang: GangSpec) -> Iterator[str]:
    for role in gang.roles:
        ips, addresses = _exported(role)
        yield f"export {ips}='{','.join([member.ip for member in role.members])}'\n"
        port = f":${{FB_{role.name.upper()}_PORT:-"
        listed = ",".join(
            [f"{_host(member.ip)}{port}{member.port or role.port}}}" for member in role.members]
        )
        yield f'export {addresses}="{listed}"\n'


def _exported(role: GangRole) -> tuple[str, str]:
    return f"FB_{role.name.upper()}_IPS", f"FB_{role.name.upper()}_ADDRESSES"


def _host(ip: str) -> str:
    return f"[{ip}]" if ":" in ip else ip


def hostfile(gang: GangSpec) -> str:
    hosts = [role for role in gang.roles if role.name != LAUNCHER] or gang.roles
    return "".join(
        f"{_called(gang, role, index)} slots={role.slots}\n"
        for role in hosts
        for index in range(len(role.members))
    )


def _called(gang: GangSpec, role: GangRole, index: int) -> str:
    if gang.service:
        return f"{names.host_name(role.name, index)}.{gang.service}"
    return role.members[index].ip


def configfile(gang: GangSpec) -> str:
    """The workers on the first line, the parameter servers on the last (statement 53)."""
    workers, servers = (
        ",".join(
            _listed(role) for role in gang.roles if role_names.type_of(role.name) == kind and role.members
        )
        for kind in ("worker", "ps")
    )
    return f"{workers}\n{servers}\n"


def _listed(role: GangRole) -> str:
    return ",".join(f"{_host(member.ip)}:{member.port or role.port}" for member in role.members)


def shell_lists(gang: GangSpec) -> str:
    """Assignments for a shell: the addresses of each role, without ports."""
    return "".join(
        f"windlass_{role.name}_ips='{','.join(member.ip for member in role.members)}'\n"
        for role in gang.roles
    )
