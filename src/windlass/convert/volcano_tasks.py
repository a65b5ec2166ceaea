"""A task of a Volcano Job with its defaults."""

import msgspec

from windlass.convert.conversion import Keys
from windlass.model.base import Json


class Task(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    role: str
    replicas: int
    min_available: int
    max_restarts: int
    """Number of container restarts of the event TaskFailed; -1: the event never occurs."""
    body: Json
    keys: Keys
    """Path of the task."""

    def host_names(self, job: str) -> list[str]:
        """Return the DNS names of the pods in the namespace. With a hostname of its own, a task has one name."""
        spec: Json = (self.body.get("template") or {}).get("spec") or {}
        subdomain = spec.get("subdomain") or job
        if spec.get("hostname"):
            return [f"{spec['hostname']}.{subdomain}"][: self.replicas]
        return [f"{job}-{self.name}-{index}.{subdomain}" for index in range(self.replicas)]
