"""Plan a submission: a job file and a target in, the objects to create out. No request is sent here.

`run`, `submit`, `render`, `plan` and the SDK use this planner. `apply` creates what was planned.
"""

import base64
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import msgspec

from windlass.client.errors import InvalidJobError
from windlass.client.prerequisites import plan as prerequisites_plan
from windlass.client.prerequisites.plan import PREFLIGHT_SECONDS, Prerequisites
from windlass.client.submit import shell_variables, sources
from windlass.client.submit.sources import Source
from windlass.model import names
from windlass.model.base import Json
from windlass.model.companions import Companion, companion_from_labels
from windlass.model.framework import ExecutionType, Framework
from windlass.render import manifest
from windlass.render.code import Code, InPlace, packed, parts_of
from windlass.render.companions import servers
from windlass.render.documents import Submission
from windlass.render.framework import builder, completion, pods
from windlass.render.manifest import Manifest
from windlass.render.storage.nfs_shares import Served, Share
from windlass.wire.codec import InvalidFramework

if TYPE_CHECKING:
    from windlass.client.submit.code_archive import Archive

Existing = Mapping[tuple[str, str], tuple[Framework | InvalidFramework, ...]]
"""Frameworks on the cluster that have the name of a planned job, by namespace and name."""


class Target(msgspec.Struct, frozen=True):
    """The cluster that a submission is planned for."""

    namespace: str = names.DEFAULT_NAMESPACE
    """Namespace of jobs that do not set one. May be empty only for `windlass render`."""
    is_embedded: bool = False
    """Whether tasks run on this machine: they need no image, and use its files in place."""
    has_own_mounts: bool = True
    """Whether pods have their own mount namespace. Some machines do not allow this."""
    description: str = "the cluster"
    """Name of the cluster in messages."""
    nfs_address: str = ""
    """Address of the jobs' own NFS server, if it is known before the plan is applied."""
    starts_in_folder: bool = False
    """Whether the tasks of a job file without code start in its folder, as with `windlass run`."""
    local_images: frozenset[str] = frozenset()
    """Images bound to folders of this machine. Their tasks start in `/` if the job has no code."""
    shell: Mapping[str, str] | None = None
    """The variables of the user's shell. Tasks get those for training libraries, as with `windlass run`."""
    programs: Mapping[str, str] = {}
    """Variables such as PATH, which locate the programs of the user's shell if another shell started the cluster."""


class SubmitOptions(msgspec.Struct, frozen=True):
    is_rerun: bool = False
    """Whether a finished job of the same name is replaced."""
    preflight_seconds: float | None = PREFLIGHT_SECONDS
    """Time limit of the search for required files. None: no preflight."""
    companions: tuple[Companion, ...] = tuple(Companion)
    """Companions to start, if the job has them."""
    companions_only: bool = False
    """Whether to start companions without their jobs."""


DEFAULT_TARGET = Target()
DEFAULT_OPTIONS = SubmitOptions()


class CompanionRef(msgspec.Struct, frozen=True):
    """Identity of a companion on a cluster."""

    companion: Companion
    job: str
    namespace: str
    server: str
    """Name of its Deployment, with which the names of its pods begin."""
    prefix: str = ""
    """Display prefix, as for tasks."""
    is_kept: bool = False
    """Whether the companion outlives the job: its field `keep`."""

    @property
    def name(self) -> str:
        """Name in all output."""
        return f"{self.prefix}{self.companion}"


class PlannedJob(Manifest, frozen=True):
    """A job with its rendered Framework."""

    submission: Submission = Submission()
    target: Target = DEFAULT_TARGET
    code: Code | None = None
    archive: "Archive | None" = None
    replaced: tuple[Framework | InvalidFramework, ...] = ()
    """Finished or terminating Frameworks of the same name, which are deleted first."""
    prerequisites: Prerequisites | None = None

    @property
    def has_nfs_placeholder(self) -> bool:
        """Whether the Framework contains the name of the NFS server's Service as a placeholder for its address."""
        job, share = self.submission.job, self.prerequisites.share if self.prerequisites is not None else None
        is_known = share is not None or bool(self.target.nfs_address)
        return job is not None and job.nfs_server is not None and not is_known

    @property
    def companions(self) -> tuple[CompanionRef, ...]:
        if self.prerequisites is None:
            return ()
        return tuple(
            CompanionRef(
                companion,
                self.name,
                self.namespace,
                servers.name_of(self.name, companion),
                self.display_prefix,
                options.keep,
            )
            for companion, options in self.prerequisites.job.companions.items()
        )

    def with_share(self, share: Share | None) -> "PlannedJob":
        """Return the job with its Framework rendered for this share, once the address of its NFS server is known."""
        if self.prerequisites is None or share == self.prerequisites.share:
            return self
        return msgspec.structs.replace(self, framework=self._render(self.target, share))

    def for_target(self, target: Target) -> "PlannedJob":
        share = self.prerequisites.share if self.prerequisites is not None else None
        return msgspec.structs.replace(self, framework=self._render(target, share), target=target)

    def _render(self, target: Target, share: Share | None) -> Json:
        return render_framework(self.submission, target, self.code, share)

    @property
    def created_framework(self) -> Json:
        """The Framework as it is created. If it has a code archive, it is started only after the archive is stored."""
        if self.archive is None:
            return self.framework
        spec = {**self.framework["spec"], "executionType": ExecutionType.CREATE.value}
        return {**self.framework, "spec": spec}

    def config_maps(self, owner_uid: str = "") -> tuple[Json, ...]:
        """Return the ConfigMaps with the code, which are deleted together with the Framework."""
        if self.archive is None:
            return ()
        owner = {
            "apiVersion": self.framework["apiVersion"],
            "kind": names.KIND,
            "name": self.name,
            "uid": owner_uid,
            "controller": False,
            "blockOwnerDeletion": False,
        }
        owners = {"ownerReferences": [owner]} if owner_uid else {}
        return tuple(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": self.namespace, **owners},
                "binaryData": {key: base64.b64encode(part).decode()},
            }
            for name, key, part in parts_of(self.name, self.archive.data)
        )


class SubmitPlan(msgspec.Struct, frozen=True):
    """All objects of one file."""

    jobs: tuple[PlannedJob, ...]
    """Jobs in the order of the file."""
    manifests: tuple[Json, ...] = ()
    """Other objects of the file, which are created before the jobs."""
    passwords: Mapping[str, str] = {}
    """Generated passwords of notebooks among the manifests, by notebook."""
    companions_only: bool = False
    """Whether only the companions of the jobs are started."""

    @property
    def name(self) -> str:
        """Name of the whole submission in output."""
        return self.jobs[0].name if len(self.jobs) == 1 else "jobs"

    @property
    def target_description(self) -> str:
        """Name of the cluster in messages."""
        return self.jobs[0].target.description if self.jobs else DEFAULT_TARGET.description

    @property
    def objects(self) -> tuple[Json, ...]:
        """All objects in the order of their creation."""
        created: list[Json] = []
        for job in self.jobs:
            created += job.prerequisites.objects if job.prerequisites is not None else ()
            if not self.companions_only:
                created += [job.created_framework, *job.config_maps()]
        return (*self.manifests, *created)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Namespaces other than `default` that are used and that no manifest creates."""
        created = {body["metadata"]["name"] for body in self.manifests if body["kind"] == "Namespace"}
        used = [
            *(job.namespace for job in self.jobs),
            *(body["metadata"].get("namespace") or "" for body in self.manifests),
        ]
        existing = created | {"", names.DEFAULT_NAMESPACE}
        return tuple(name for name in dict.fromkeys(used) if name not in existing)

    @property
    def companions(self) -> tuple[CompanionRef, ...]:
        return (*(each for job in self.jobs for each in job.companions), *self.manifest_companions)

    @property
    def manifest_companions(self) -> tuple[CompanionRef, ...]:
        """Companions among the manifests. `windlass run` does not keep running for these."""
        found = [_companion_of(body["metadata"]) for body in self.manifests if body["kind"] == "Deployment"]
        companions = tuple(each for each in found if each is not None)
        if len(companions) == len(self.jobs) == 1:
            return companions
        return tuple(msgspec.structs.replace(each, prefix=f"{each.job}/") for each in companions)

    @property
    def display_names(self) -> tuple[str, ...]:
        """Names of everything that a line of output may be about."""
        job_names = (name for job in self.jobs for name in (job.name, *job.display_names))
        return (*job_names, *(each.name for each in self.companions))

    def with_manifests(self, manifests: Collection[Json]) -> "SubmitPlan":
        return msgspec.structs.replace(self, manifests=(*self.manifests, *manifests))

    def without_own_mounts(self) -> "SubmitPlan":
        """Return the plan for a machine on which pods do not have their own mount namespace."""
        jobs = (
            job.for_target(msgspec.structs.replace(job.target, has_own_mounts=False)) for job in self.jobs
        )
        return msgspec.structs.replace(self, jobs=tuple(jobs))


def plan(
    source: Source, target: Target, options: SubmitOptions = DEFAULT_OPTIONS, existing: Existing | None = None
) -> SubmitPlan:
    """Plan all jobs of a file. `existing` are the Frameworks to be replaced. Raises ClientError."""
    contents = source.contents
    planned = SubmitPlan(
        tuple(plan_job(source, each, target, options, existing) for each in contents.submissions),
        contents.extra_manifests,
        contents.generated_passwords,
        options.companions_only,
    )
    if options.companions_only and not any(
        each.companion in options.companions for each in planned.companions
    ):
        companion = "companion" if len(options.companions) > 1 else ", ".join(options.companions)
        fields = " or ".join(f"`{each}: {{}}`" for each in options.companions)
        raise InvalidJobError(f"no job has a {companion}: add {fields} to the job")
    return planned


def plan_job(
    source: Source,
    submission: Submission,
    target: Target,
    options: SubmitOptions = DEFAULT_OPTIONS,
    existing: Existing | None = None,
) -> PlannedJob:
    """Plan one job of a file. Raises ClientError."""
    submission = submission.in_namespace(target.namespace)
    if submission.job is not None:
        with_shell = shell_variables.applied(submission.job, target.shell, target.programs)
        submission = msgspec.structs.replace(submission, job=with_shell)
    replaced = (existing or {}).get((submission.namespace or target.namespace, submission.name), ())
    prefix = f"{submission.name}/" if len(source.contents.submissions) > 1 else ""
    if submission.job is None:
        framework = render_framework(submission, target)
        return PlannedJob(framework, prefix, submission, target, replaced=replaced)
    job = submission.job.with_companions(options.companions)
    is_submitted = not options.companions_only
    code, archive = _code(source, submission, target) if is_submitted else (None, None)
    prerequisites = prerequisites_plan.plan(
        job,
        source.folder,
        is_embedded=target.is_embedded,
        preflight_seconds=options.preflight_seconds,
        companions_only=options.companions_only,
    )
    share: Share | None = Served(target.nfs_address) if target.nfs_address and job.nfs_server else None
    if prerequisites is not None:
        share = share or prerequisites.share
    framework = render_framework(submission, target, code, share)
    if is_submitted or job.companions:
        _require_image(submission, framework, target)
    return PlannedJob(
        framework,
        prefix,
        submission,
        target,
        code,
        archive,
        replaced,
        prerequisites,
    )


def may_differ_if_embedded(submission: Submission) -> bool:
    """Return whether the plan of a job may be different on an embedded cluster."""
    job = submission.job
    if job is None:
        return False
    may_lack_image = any(role.tasks > 0 and not (role.image or job.image) for role in job.roles.values())
    is_undecided = bool(completion.undecided_roles(job))
    return may_lack_image or bool(job.code) or is_undecided or prerequisites_plan.may_differ_if_embedded(job)


def render_framework(
    submission: Submission,
    target: Target = DEFAULT_TARGET,
    code: Code | None = None,
    share: Share | None = None,
) -> Json:
    """Render the Framework of a job. A Framework written by hand only gets a namespace, if it has none."""
    if submission.job is None:
        return manifest.with_default_namespace(submission.framework or {}, target.namespace)
    job = submission.in_namespace(target.namespace).job or submission.job
    if target.is_embedded:
        job = completion.without_entrypoints(job)
    return builder.framework(job, code, share, has_own_mounts=target.has_own_mounts)


def _code(source: Source, submission: Submission, target: Target) -> "tuple[Code | None, Archive | None]":
    """Return how the code reaches the tasks: in place on this machine, or in an archive."""
    path = source.code_of(submission)
    if path is None:
        folder = InPlace(str(source.absolute(".")), target.local_images)
        return folder if target.starts_in_folder else None, None
    if target.is_embedded:
        return sources.in_place(path), None
    # Imported here: the import is slow, and `windlass run` does not need it.
    from windlass.client.submit import code_archive

    archive = code_archive.pack(path)
    return packed(submission.name, archive.data), archive


def _require_image(submission: Submission, framework: Json, target: Target) -> None:
    """Raise InvalidJobError if a task has no image and the target is not an embedded cluster."""
    is_missing = any(
        container.get("image") == pods.NO_IMAGE
        for role in framework["spec"]["taskRoles"]
        if role["taskNumber"] > 0
        for container in role["task"]["pod"]["spec"]["containers"]
    )
    if is_missing and not target.is_embedded:
        raise InvalidJobError(
            f"the job {submission.name} has no image, which is required on {target.description}. "
            "Add one to the job file, e.g. `image: python:3.12`"
        )


def _companion_of(metadata: Json) -> CompanionRef | None:
    labels = metadata.get("labels") or {}
    companion, job = companion_from_labels(labels), labels.get(names.JOB_LABEL)
    if companion is None or not job:
        return None
    namespace = metadata.get("namespace") or names.DEFAULT_NAMESPACE
    return CompanionRef(companion, job, namespace, metadata["name"])
