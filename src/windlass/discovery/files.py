"""The files that the barrier writes for the containers of its pod when all addresses are known.

framework.json   the Framework, or only those of its fields that the Gang contains
injector.sh      exports and prints FB_WORKER_IPS=10.0.0.5,10.0.0.6 and FB_WORKER_ADDRESSES=10.0.0.5:2222,10.0.0.6:2222
cluster.env      the same exports without printing, for the wrapped command
hostfile, hostfile.hydra, ssh_config     see `mpi`
tf_config.json   the value of TF_CONFIG
configfile       10.0.0.5:49866      only if requested: the workers on the first line
                 10.0.0.4:49867      and the parameter servers on the last
"""

from collections.abc import Iterator

import msgspec

from windlass.discovery import mpi, peers
from windlass.discovery.tensorflow import TensorFlow
from windlass.model import names, role_names
from windlass.model.base import Json
from windlass.model.gang import GangRole, GangSpec

FRAMEWORK = "framework.json"
INJECTOR = "injector.sh"
TF_CONFIG = "tf_config.json"


def contents(gang: GangSpec, role: str, index: int, tf_config: str = "") -> dict[str, str]:
    """Return the contents by file name. `tf_config` is the value of TF_CONFIG in the task's environment, if it is set:
    the file has the same value."""
    addresses = peers.gang_peers_with_dns_names(gang) if gang.service else peers.peers_with_ip_addresses(gang)
    exports = "".join(_exports(gang))
    return {
        FRAMEWORK: msgspec.json.encode(framework(gang)).decode() + "\n",
        INJECTOR: _injector(gang, exports),
        names.CLUSTER_ENV_FILE: exports,
        **mpi.files(mpi.hosts_of(gang, lambda role, index: addresses.roles[role][index])),
        TF_CONFIG: (tf_config or TensorFlow(addresses).config(role, index)) + "\n",
    }


def framework(gang: GangSpec) -> Json:
    """Return the fields of the Framework that the Gang contains."""
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
    """Return the same script as FrameworkController (behaviour 48): FB_{ROLE}_PORT overrides the ports."""
    echoes = (f'echo "{name}=${name}"\n' for role in gang.roles for name in _variable_names(role))
    return "".join(("#!/bin/sh\n", exports, *echoes))


def variables(gang: GangSpec) -> dict[str, str]:
    """Return the variables that injector.sh exports if FB_{ROLE}_PORT is not set."""
    variables_by_name = {}
    for role in gang.roles:
        ips, addresses = _variable_names(role)
        variables_by_name[ips] = _ips(role)
        variables_by_name[addresses] = _addresses(role)
    return variables_by_name


def _exports(gang: GangSpec) -> Iterator[str]:
    for role in gang.roles:
        ips, addresses = _variable_names(role)
        yield f"export {ips}='{_ips(role)}'\n"
        yield f'export {addresses}="{_addresses(role, f"${{FB_{role.name.upper()}_PORT:-", "}")}"\n'


def _variable_names(role: GangRole) -> tuple[str, str]:
    return f"FB_{role.name.upper()}_IPS", f"FB_{role.name.upper()}_ADDRESSES"


def _bracket_ipv6(ip: str) -> str:
    return f"[{ip}]" if ":" in ip else ip


def configfile(gang: GangSpec) -> str:
    """Return the workers on the first line and the parameter servers on the last (docs/behaviours.md, 53)."""
    workers, servers = (
        ",".join(
            _addresses(role)
            for role in gang.roles
            if role_names.type_of(role.name) == role_type and role.members
        )
        for role_type in ("worker", "ps")
    )
    return f"{workers}\n{servers}\n"


def _ips(role: GangRole) -> str:
    return ",".join([member.ip for member in role.members])


def _addresses(role: GangRole, before_port: str = "", after_port: str = "") -> str:
    """Return the addresses. Each port is enclosed in `before_port` and `after_port`, which contain shell syntax."""
    return ",".join(
        [
            f"{_bracket_ipv6(member.ip)}:{before_port}{member.port or role.port}{after_port}"
            for member in role.members
        ]
    )


def shell_lists(gang: GangSpec) -> str:
    """Return shell assignments with the IP addresses of each role."""
    return "".join(f"windlass_{role.name}_ips='{_ips(role)}'\n" for role in gang.roles)
