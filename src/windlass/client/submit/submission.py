"""Submit jobs to a cluster: look up existing jobs, plan, and apply the plan. A dry run stops after the plan."""

from collections.abc import Sequence

from windlass.client import lookup, views
from windlass.client.connection import Connection
from windlass.client.errors import InvalidJobError, ObjectExistsError
from windlass.client.submit import apply, kinds
from windlass.client.submit import plan as planner
from windlass.client.submit.apply import AppliedJob, Report
from windlass.client.submit.plan import DEFAULT_OPTIONS, SubmitOptions, SubmitPlan, Target
from windlass.client.submit.sources import Source
from windlass.model.framework import Framework
from windlass.render import manifest
from windlass.wire.codec import InvalidFramework


async def submit(
    connection: Connection,
    source: Source,
    options: SubmitOptions = DEFAULT_OPTIONS,
    report: Report = lambda _: None,
) -> tuple[AppliedJob, ...]:
    """Submit all jobs of a source. Raises ClientError."""
    (planned,) = await plan(connection, (source,), options)
    return tuple([applied async for applied in apply.apply(connection, planned, report)])


async def plan(
    connection: Connection, sources: Sequence[Source], options: SubmitOptions = DEFAULT_OPTIONS
) -> tuple[SubmitPlan, ...]:
    """Plan several sources, which are submitted one after the other. The cluster is not changed. Raises ClientError."""
    planned = tuple([await _plan(connection, source, options) for source in sources])
    if options.companions_only:
        return planned
    jobs = [job for each in planned for job in each.jobs]
    duplicate = manifest.first_duplicate(jobs)
    if duplicate is not None:
        raise InvalidJobError(
            f"two jobs in the namespace {duplicate.namespace} are called {duplicate.name}: rename one of them"
        )
    for api_version in {job.framework["apiVersion"] for job in jobs}:
        if not await kinds.is_served(connection.send, api_version):
            raise lookup.not_installed_error(connection)
    return planned


async def _plan(connection: Connection, source: Source, options: SubmitOptions) -> SubmitPlan:
    existing = {}
    submissions = source.contents.submissions
    for submission in () if options.companions_only else submissions:
        job_connection = connection.at(submission.namespace)
        frameworks = await lookup.find_all(job_connection, submission.name)
        for each in frameworks:
            require_replaceable(each, job_connection.namespace, is_rerun=options.is_rerun)
        existing[job_connection.namespace, submission.name] = frameworks
    may_differ_if_embedded = any(map(planner.may_differ_if_embedded, submissions))
    target = Target(
        namespace=connection.namespace,
        is_embedded=may_differ_if_embedded and await connection.is_embedded(),
        description=connection.where,
    )
    return planner.plan(source, target, options, existing)


def require_replaceable(framework: Framework | InvalidFramework, namespace: str, *, is_rerun: bool) -> None:
    """Raise ObjectExistsError if an existing job may not be replaced."""
    view = views.job_view(framework)
    is_deleting = framework.metadata.deletion_timestamp is not None
    if is_rerun and (is_deleting or view.is_completed):
        return
    exists = f"job {view.name} already exists in the namespace {namespace}"
    if is_deleting:
        raise ObjectExistsError(
            f"{exists} and is being deleted. Wait for that with `windlass wait --for deleted {view.name}`."
        )
    if view.is_completed:
        raise ObjectExistsError(
            f"{exists} and has finished ({view.state}). To replace it, including its status and pods, use --rerun "
            "(in Python: rerun=True)."
        )
    raise ObjectExistsError(
        f"{exists} and is {view.state}. Wait for its end (`windlass wait {view.name}`), stop it "
        f"(`windlass stop {view.name}`), or rename the new job."
    )
