"""What `windlass run` runs, and how: jobs as Frameworks, and what else has to be there before them. Values only."""

from collections.abc import Sequence

import msgspec

from windlass.client import preparing_plans
from windlass.client.preparing_plans import Preparation
from windlass.model import names
from windlass.model.base import Json
from windlass.render import manifest
from windlass.render.code import Code
from windlass.render.documents import Submission
from windlass.render.manifest import Manifest
from windlass.render.shares import Share
from windlass.wire.injections import Injection


class Plan(msgspec.Struct, frozen=True):
    """How it is to be run."""

    nodes: int = 1
    network: str = "auto"
    timeout: float | None = None
    """Seconds for all of it."""
    reads_logs: bool = True
    injections: tuple[Injection, ...] = ()


class Job(Manifest, frozen=True):
    prefix: str = ""
    """Of what its tasks are called, where there are several jobs."""
    preparation: Preparation | None = None
    """What has to be there before it."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """As all that is told of them calls them: `worker-0`, of one job of several `digits/worker-0`."""
        return tuple(f"{self.prefix}{name}" for name in self.task_names)


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
    def objects(self) -> tuple[str, ...]:
        """Whatever a line may be about."""
        return tuple(name for job in self.jobs for name in (job.name, *job.tasks))


def of(given: Sequence[tuple[Submission, Code | None]], others: tuple[Json, ...]) -> Work:
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

    return Work(jobs(has_mounts=True), others, jobs(has_mounts=False))


def _share(submission: Submission) -> Share | None:
    return preparing_plans.share_of(submission.job) if submission.job is not None else None
