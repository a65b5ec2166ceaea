"""The peers of a task without a word for any library.

PS_HOSTS        ps-0.job:2222,ps-1.job:2222            likewise {ROLE}_HOSTS of every role
JOB_NAME        worker
TASK_INDEX      0
"""

from windlass.discovery.peers import Peers


class Plain:
    def __init__(self, peers: Peers) -> None:
        self._lists = {
            f"{role.upper()}_HOSTS": ",".join(map(str, addresses)) for role, addresses in peers.roles.items()
        }

    def variables(self, role: str, index: int) -> dict[str, str]:
        return {**self._lists, "JOB_NAME": role, "TASK_INDEX": str(index)}
