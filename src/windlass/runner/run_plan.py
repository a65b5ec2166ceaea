"""What `windlass run` runs, and how: jobs as Frameworks, and what else has to be there before them. Values only."""

from collections.abc import Mapping, Sequence

import msgspec

from windlass.client.prerequisites import plan as prerequisites_plan
from windlass.client.prerequisites.plan import Preparation
from windlass.model import names
from windlass.model.base import Json
from windlass.model.companions import Companion, companion_from_labels
from windlass.render import manifest
from windlass.render.code import Code
from windlass.render.companions import servers
from windlass.render.documents import Submission
from windlass.render.manifest import Manifest
from windlass.render.storage.nfs_shares import Share
from windlass.wire.fault_injection import Injection


class Doors(msgspec.Struct, frozen=True):
    """Where this machine is asked to listen for the companions of a run."""

    address: str = "127.0.0.1"
    port: int | None = None
    """Without it: that of the companion. One that is taken gives way to the next free one."""
    opens_browser: bool = False


class Plan(msgspec.Struct, frozen=True):
    """How it is to be run."""

    nodes: int = 1
    network: str = "auto"
    timeout: float | None = None
    """Seconds for all of it."""
    reads_logs: bool = True
    injections: tuple[Injection, ...] = ()
    has_jobs: bool = True
    """Without them, companions are started alone."""
    doors: Doors = Doors()


class Beside(msgspec.Struct, frozen=True):
    """A companion, by what it is found."""

    companion: Companion
    job: str
    namespace: str
    server: str
    """Its Deployment: the names of its pods begin with that."""
    prefix: str = ""
    """Of its name, as for tasks."""
    is_kept: bool = False
    """The run stays open for it."""

    @property
    def name(self) -> str:
        """As all that is told of it calls it."""
        return f"{self.prefix}{self.companion}"


class Job(Manifest, frozen=True):
    prefix: str = ""
    """Of what its tasks are called, where there are several jobs."""
    preparation: Preparation | None = None
    """What has to be there before it."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """As all that is told of them calls them: `worker-0`, of one job of several `digits/worker-0`."""
        return tuple(f"{self.prefix}{name}" for name in self.task_names)

    @property
    def companions(self) -> tuple[Beside, ...]:
        if self.preparation is None:
            return ()
        return tuple(
            Beside(
                companion,
                self.name,
                self.namespace,
                servers.name_of(self.name, companion),
                self.prefix,
                wanted.keep,
            )
            for companion, wanted in self.preparation.job.companions.items()
        )


class Work(msgspec.Struct, frozen=True):
    """All of a run."""

    jobs: tuple[Job, ...]
    """In the order of the file."""
    others: tuple[Json, ...] = ()
    """To be created before them, in this order."""
    without_mounts: tuple[Job, ...] = ()
    """The same jobs, for a machine on which pods have no mounts of their own."""
    shown: Mapping[str, str] = {}
    """Passwords that were made up for companions among the others, by job: to be told once."""

    def for_machine(self, *, has_mounts: bool) -> "Work":
        return self if has_mounts else msgspec.structs.replace(self, jobs=self.without_mounts)

    def with_preparations(self, given: Sequence[Preparation | None]) -> "Work":
        """One for each job, in the same order."""

        def prepared(jobs: tuple[Job, ...]) -> tuple[Job, ...]:
            return tuple(
                msgspec.structs.replace(job, preparation=preparation)
                for job, preparation in zip(jobs, given, strict=True)
            )

        return msgspec.structs.replace(
            self, jobs=prepared(self.jobs), without_mounts=prepared(self.without_mounts)
        )

    @property
    def name(self) -> str:
        """Of what is told of the run as a whole."""
        return self.jobs[0].name if len(self.jobs) == 1 else "jobs"

    @property
    def companions(self) -> tuple[Beside, ...]:
        return (*(each for job in self.jobs for each in job.companions), *self.written_companions)

    @property
    def written_companions(self) -> tuple[Beside, ...]:
        """Those that are objects of the file. Nobody has said that a run should stay open for them."""
        found = [_written(body["metadata"]) for body in self.others if body["kind"] == "Deployment"]
        companions = tuple(each for each in found if each is not None)
        is_one_of_each = len(companions) == len(self.jobs) == 1
        if is_one_of_each:
            return companions
        return tuple(msgspec.structs.replace(each, prefix=f"{each.job}/") for each in companions)

    @property
    def objects(self) -> tuple[str, ...]:
        """Whatever a line may be about."""
        of_jobs = (name for job in self.jobs for name in (job.name, *job.tasks))
        return (*of_jobs, *(each.name for each in self.companions))


def of(
    given: Sequence[tuple[Submission, Code | None]],
    others: tuple[Json, ...],
    shown: Mapping[str, str] | None = None,
) -> Work:
    """Every Framework gets a namespace; one of several has its name before those of its tasks."""

    def jobs(*, has_mounts: bool) -> tuple[Job, ...]:
        return tuple(
            Job(
                manifest.in_namespace(
                    submission.framework(code, _share(submission), has_mounts=has_mounts),
                    names.DEFAULT_NAMESPACE,
                ),
                f"{submission.name}/" if len(given) > 1 else "",
            )
            for submission, code in given
        )

    return Work(jobs(has_mounts=True), others, jobs(has_mounts=False), shown or {})


def _written(metadata: Json) -> Beside | None:
    labels = metadata.get("labels") or {}
    companion, job = companion_from_labels(labels), labels.get(names.JOB_LABEL)
    if companion is None or not job:
        return None
    namespace = metadata.get("namespace") or names.DEFAULT_NAMESPACE
    return Beside(companion, job, namespace, metadata["name"])


def _share(submission: Submission) -> Share | None:
    return prerequisites_plan.share_of(submission.job) if submission.job is not None else None
