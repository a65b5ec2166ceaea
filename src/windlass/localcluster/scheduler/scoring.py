"""Which of the nodes that a pod fits on is the best, as kube-scheduler weighs them; of equals the first by name. Pure.

Weighed are taints that would rather have the pod elsewhere, preferred node affinity, and how much of the CPU and the
memory would be left. Where images lie, and whether CPU and memory are used alike, makes no difference on one machine.
"""

from collections.abc import Sequence

from windlass.localcluster.scheduler import affinity, taints
from windlass.localcluster.scheduler.node_resources import Account, Asked, Wanted

_MOST = 100
_TAINTS, _AFFINITY, _ROOM = 3, 2, 1


def best(wanted: Wanted, accounts: Sequence[Account]) -> Account:
    if len(accounts) == 1:
        return accounts[0]
    discouraging = [taints.count_of_discouraging(wanted.spec, account.node) for account in accounts]
    preferences = [affinity.preference(wanted.spec, account.node) for account in accounts]
    worst, most = max(discouraging), max(preferences)

    def rank(index: int) -> tuple[int, str]:
        score = (
            _TAINTS * (_MOST - _share(discouraging[index], worst))
            + _AFFINITY * _share(preferences[index], most)
            + _ROOM * _room_left(wanted.asked, accounts[index])
        )
        return -score, accounts[index].name

    return accounts[min(range(len(accounts)), key=rank)]


def _room_left(asked: Asked, account: Account) -> int:
    """How much of the CPU and the memory would be left, each in hundredths."""
    shares = [
        _share(account.allocatable[name] - account.presumed.get(name, 0) - asked.presumed.get(name, 0), whole)
        for name in ("cpu", "memory")
        if (whole := account.allocatable.get(name, 0))
    ]
    return sum(shares) // len(shares) if shares else 0


def _share(part: int, whole: int) -> int:
    return max(part, 0) * _MOST // whole if whole else 0
