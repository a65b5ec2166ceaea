"""Peer information for TensorFlow.

TF_CONFIG       {"cluster": {"ps": ["ps-0.digits:2222"], "worker": ["worker-0.digits:2222"]},
                 "task": {"type": "worker", "index": 0}}
CLUSTER_CONFIG  {"ps": ["ps-0.digits:2222"], "worker": ["worker-0.digits:2222"]}
PS_HOSTS        ps-0.digits:2222                       likewise {TYPE}_HOSTS of every type of task
JOB_NAME        worker
TASK_INDEX      0
worker_hosts    worker-0.digits:2222                   likewise ps_hosts
taskindex       0
"""

import msgspec

from windlass.discovery.peers import Peers
from windlass.model import role_names

_TYPES_WITH_LOWERCASE_VARIABLE = ("worker", "ps")


class TensorFlow:
    """Formats the peers for TensorFlow. The cluster, which all tasks share, is encoded once."""

    def __init__(self, peers: Peers) -> None:
        self._keeps_role_names = peers.keeps_role_names
        self._cluster: dict[str, list[str]] = {}
        self._offset: dict[str, int] = {}
        for role, addresses in peers.roles.items():
            if role_names.is_member(role) and addresses:
                # The tasks of all roles of the same type are numbered consecutively.
                members = self._cluster.setdefault(self._type_of(role), [])
                self._offset[role] = len(members)
                members += map(str, addresses)
        self._cluster_json = msgspec.json.encode(self._cluster).decode()

    def config(self, role: str, index: int) -> str:
        """Return the value of TF_CONFIG."""
        task_type, number = self._type_of(role), self._index_in_type(role, index)
        return f'{{"cluster":{self._cluster_json},"task":{{"type":"{task_type}","index":{number}}}}}'

    def variables(self, role: str, index: int) -> dict[str, str]:
        number = str(self._index_in_type(role, index))
        host_lists = {task_type: ",".join(members) for task_type, members in self._cluster.items()}
        return {
            "TF_CONFIG": self.config(role, index),
            "CLUSTER_CONFIG": self._cluster_json,
            **{f"{task_type.upper()}_HOSTS": hosts for task_type, hosts in host_lists.items()},
            "JOB_NAME": self._type_of(role),
            "TASK_INDEX": number,
            **{
                f"{task_type}_hosts": host_lists[task_type]
                for task_type in _TYPES_WITH_LOWERCASE_VARIABLE
                if task_type in host_lists
            },
            "taskindex": number,
        }

    def _type_of(self, role: str) -> str:
        return role if self._keeps_role_names else role_names.type_of(role)

    def _index_in_type(self, role: str, index: int) -> int:
        return self._offset.get(role, 0) + index
