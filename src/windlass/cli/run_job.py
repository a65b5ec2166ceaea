"""What `windlass run` runs, and how: jobs as Frameworks, and what else has to be there before them. Values only."""

from collections.abc import Sequence

import msgspec

from windlass.model import names
from windlass.model.base import Json
from windlass.render.code import Code
from windlass.render.documents import Submission
from windlass.wire.injections import Injection

DEFAULT_NAMESPACE = "default"


class Plan(msgspec.Struct, frozen=True):
    """How it is to be run."""

    nodes: int = 1
    network: str = "auto"
    timeout: float | None = None
    """Seconds for all of it."""
    reads_logs: bool = True
    injections: tuple[Injection, ...] = ()


class Job(msgspec.Struct, frozen=True):
    framework: Json
    """As it was written, with its namespace."""
    prefix: str = ""
    """Of what its tasks are called, where there are several jobs."""

    @property
    def name(self) -> str:
        name: str = self.framework["metadata"]["name"]
        return name

    @property
    def namespace(self) -> str:
        namespace: str = self.framework["metadata"]["namespace"]
        return namespace

    @property
    def group(self) -> str:
        return names.group_of(self.framework["apiVersion"])

    @property
    def key(self) -> tuple[str, str]:
        """No two jobs of one run have the same."""
        return self.namespace, self.name

    @property
    def tasks(self) -> tuple[str, ...]:
        """What its pods are called for short: `worker-0`."""
        return tuple(
            f"{self.prefix}{role['name']}-{index}"
            for role in self.framework["spec"].get("taskRoles") or ()
            for index in range(role.get("taskNumber") or 0)
        )


class Work(msgspec.Struct, frozen=True):
    """All of a run."""

    jobs: tuple[Job, ...]
    """In the order of the file."""
    others: tuple[Json, ...] = ()
    """To be created before them, in this order."""
    without_mounts: tuple[Job, ...] = ()
    """The same jobs, for a machine on which pods have no mounts of their own."""

    def for_machine(self, *, has_mounts: bool) -> "Work":
        return self if has_mounts else msgspec.structs.replace(self, jobs=self.without_mounts)

    @property
    def name(self) -> str:
        """Of what is told of the run as a whole."""
        return self.jobs[0].name if len(self.jobs) == 1 else "jobs"

    @property
    def objects(self) -> tuple[str, ...]:
        """Whatever a line may be about."""
        return tuple(name for job in self.jobs for name in (job.name, *job.tasks))


def work(given: Sequence[tuple[Submission, Code | None]], others: tuple[Json, ...]) -> Work:
    """Every Framework gets a namespace; one of several has its name before those of its tasks."""

    def jobs(*, has_mounts: bool) -> tuple[Job, ...]:
        return tuple(
            Job(
                _with_namespace(submission.framework(code, has_mounts=has_mounts)),
                f"{submission.name}/" if len(given) > 1 else "",
            )
            for submission, code in given
        )

    return Work(jobs(has_mounts=True), others, jobs(has_mounts=False))


def twice(jobs: Sequence[Job]) -> Job | None:
    """The first whose name was taken by one before it."""
    seen = set()
    for job in jobs:
        if job.key in seen:
            return job
        seen.add(job.key)
    return None


def _with_namespace(framework: Json) -> Json:
    # A null is an absent field to Kubernetes, also here.
    namespace = framework["metadata"].get("namespace") or DEFAULT_NAMESPACE
    return {**framework, "metadata": {**framework["metadata"], "namespace": namespace}}
