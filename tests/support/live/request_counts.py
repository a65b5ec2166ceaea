"""Count the requests of Frameworks with the audit log of the API server.

Watches with their initial lists, leases and Events do not count; Events are shown. The log does not contain bodies, and
the removal of an attempt's pods names none, so requests are counted by namespace; most tests have one Framework in
theirs.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import msgspec

from conformance.client import Json
from windlass.model import names

KEPT: Final = 6
"""A success with kept pods: the ConfigMap and five statuses, plus one request per pod."""
REMOVED: Final = 9
"""With removal also: the pods in one request, the ConfigMap, one more status."""
BURSTS: Final = 3
"""Status writes that are always necessary, because pods are created, start and end."""

LONG_AGO: Final = datetime(2000, 1, 1, tzinfo=UTC)

_READS = frozenset({"get", "list"})


class Account(msgspec.Struct):
    frameworks: int = 0
    attempts: int = 0
    pods: int = 0
    """Pods created by the controller."""
    deleted_pods: int = 0
    """Pods deleted one by one by the controller."""
    statuses: int = 0
    others: int = 0
    reads: int = 0
    events: int = 0
    refused: int = 0
    changes: int = 0
    """Changes of pods and Frameworks by others: each may require a status write."""

    @property
    def requests(self) -> int:
        return self.attempts + self.pods + self.deleted_pods + self.statuses + self.others + self.reads

    @property
    def budget(self) -> int:
        """Return the budget if nothing is coalesced and rejected requests are retried."""
        further = max(0, self.changes - BURSTS * self.attempts) + self.refused
        return self.pods + self.deleted_pods + REMOVED * max(self.attempts, self.frameworks) + further

    @property
    def is_over_budget(self) -> bool:
        return self.requests > self.budget


def read(log: Path, mentioning: str, since: datetime = LONG_AGO) -> Iterator[Json]:
    """Yield completed requests. The log is long: only lines containing these texts are decoded."""
    # The API server rotates the file and adds the time to the old name.
    for file in (*sorted(log.parent.glob(f"{log.stem}-*{log.suffix}")), log):
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                if mentioning in line and line.endswith("\n"):  # the last line may be incomplete
                    entry = json.loads(line)
                    is_done = entry["stage"] == "ResponseComplete"
                    if is_done and datetime.fromisoformat(entry["stageTimestamp"]) >= since:
                        yield entry


def by_namespace(entries: Iterable[Json], controller: str) -> dict[str, Account]:
    accounts: dict[str, Account] = {}
    for entry in entries:
        namespace = entry.get("objectRef", {}).get("namespace", "")
        if namespace and entry["verb"] != "watch" and not _begins_a_watch(entry):
            _book(accounts.setdefault(namespace, Account()), entry, controller)
    return {name: account for name, account in accounts.items() if account.frameworks}


def _book(account: Account, entry: Json, controller: str) -> None:
    what = _resource(entry)
    if entry["user"]["username"] != controller:
        is_success = entry["responseStatus"]["code"] < 300
        account.frameworks += is_success and (entry["verb"], what) == ("create", names.PLURAL)
        account.changes += is_success and _is_change(entry["verb"], what)
        return
    if what == "events":
        account.events += 1
        return
    account.refused += entry["responseStatus"]["code"] >= 400
    match entry["verb"], what:
        case "create", "pods":
            account.pods += 1
        case "delete", "pods":
            account.deleted_pods += 1
        case "create", "configmaps":
            account.attempts += 1
        case "patch", "frameworks/status":
            account.statuses += 1
        case verb, _ if verb in _READS:
            account.reads += 1
        case _:
            account.others += 1


def _begins_a_watch(entry: Json) -> bool:
    """Return whether the list starts a watch. A controller of single namespaces lists each when it becomes leader.
    Lists for one Framework name it."""
    of_one = f"{names.FRAMEWORK_NAME}="
    return entry["verb"] == "list" and of_one not in unquote(entry["requestURI"])


def _is_change(verb: str, what: str) -> bool:
    if verb in _READS:
        return False
    return what in (names.PLURAL, "pods", "pods/status", "pods/binding", "pods/eviction")


def _resource(entry: Json) -> str:
    target = entry["objectRef"]
    return "/".join(filter(None, (target.get("resource", ""), target.get("subresource", ""))))


COLUMNS: Final = (*Account.__struct_fields__, "requests", "budget")


def lines(accounts: dict[str, Account]) -> Iterator[str]:
    """Return a table: the total, and the namespaces over budget."""
    total = Account()
    for account in accounts.values():
        for field in Account.__struct_fields__:
            setattr(total, field, getattr(total, field) + getattr(account, field))
    yield f"{'':<16}" + "".join(f"{_title(name):>{_width(name)}}" for name in COLUMNS)
    yield line("all", total)
    for name, account in sorted(accounts.items()):
        if account.is_over_budget:
            yield f"{line(name, account)}  over budget"


def line(name: str, account: Account) -> str:
    return f"{name:<16}" + "".join(f"{getattr(account, column):>{_width(column)}}" for column in COLUMNS)


def _title(column: str) -> str:
    return column.replace("_", " ")


def _width(column: str) -> int:
    return max(len(column), 6) + 2
