"""Submit the jobs of a run to its cluster, and turn the progress into lines of the report."""

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from windlass.client.connection import Connection
from windlass.client.submit import apply
from windlass.client.submit.plan import SubmitPlan
from windlass.client.submit.progress import ObjectApplied, PasswordGenerated, Progress
from windlass.kubeapi import requests
from windlass.kubeapi.errors import AlreadyExistsError
from windlass.kubeapi.resources import CUSTOM_RESOURCE_DEFINITIONS
from windlass.kubeapi.transport import Transport
from windlass.model import names
from windlass.model.feature_annotations import requested_features
from windlass.render.manifest import Manifest
from windlass.runner.companions import Companions
from windlass.runner.report import Line, Topic
from windlass.wire.crd import manifests

Tell = Callable[[Line], None]


async def define_resources(transport: Transport, plan: SubmitPlan) -> None:
    """Create the custom resource definitions that the jobs need: each takes about 50 ms. Raises ApiError."""
    groups = dict.fromkeys(job.group for job in plan.jobs)
    gangs = (manifests.gang_crd(),) if any(map(_uses_gang, plan.jobs)) else ()
    for definition in (*map(manifests.framework_crd, groups), *gangs):
        body = msgspec.json.encode(definition)
        # The controller of the cluster may have created it already.
        with contextlib.suppress(AlreadyExistsError):
            await transport.send(requests.create(CUSTOM_RESOURCE_DEFINITIONS, "", body))


async def submit(
    transport: Transport, plan: SubmitPlan, companions: Companions, tell: Tell, *, is_ephemeral: bool
) -> None:
    """Create all objects of the plan, and forward ports to companions as soon as they exist. Raises ClientError."""

    def report(progress: Progress) -> None:
        line = _line(plan, progress)
        if line is not None:
            tell(line)

    connection = Connection(transport, names.DEFAULT_NAMESPACE, has_answered=True)
    await apply.apply_manifests(connection, plan, report, creates_namespaces=True)
    companions.open(plan.manifest_companions)
    async for applied in apply.apply_jobs(connection, plan, report, is_ephemeral=is_ephemeral):
        if applied.framework is not None:
            tell(Line(Topic.FRAMEWORK, _now(), applied.job.name, "Submitted", "submitted"))
        companions.open(applied.job.companions)


def _line(plan: SubmitPlan, progress: Progress) -> Line | None:
    match progress:
        case PasswordGenerated(companion=""):
            name = next(each.name for each in plan.manifest_companions if each.job == progress.job)
            return Line(Topic.COMPANION, _now(), name, "Password", progress.message)
        case PasswordGenerated():
            return Line(Topic.COMPANION, _now(), progress.job, "Password", progress.message)
        case ObjectApplied(job=""):
            return None
    return Line(Topic.FRAMEWORK, _now(), progress.job, "Preparing", progress.message)


def _uses_gang(job: Manifest) -> bool:
    return requested_features(job.framework["metadata"].get("annotations") or {}).uses_gang


def _now() -> datetime:
    return datetime.now(UTC)
