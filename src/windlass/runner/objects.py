"""What the cluster of a run is given before it has anything to do: definitions, namespaces, and the file's objects."""

import contextlib
from collections.abc import Sequence

import msgspec

from windlass.client.submit.kinds import Kinds
from windlass.kubeapi import requests
from windlass.kubeapi.errors import AlreadyExistsError, AnsweredError
from windlass.kubeapi.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Resource, frameworks
from windlass.kubeapi.transport import Transport
from windlass.model import names
from windlass.model.base import Json
from windlass.model.feature_annotations import requested_features
from windlass.model.framework import Framework
from windlass.runner.run_plan import Job, Work
from windlass.wire import codec
from windlass.wire.crd import manifests


class RefusedError(Exception):
    """The API server does not take an object of the file. One message."""


async def define(transport: Transport, work: Work) -> None:
    """What there will be any of: each costs a twentieth of a second. Raises ApiError."""
    groups = dict.fromkeys(job.group for job in work.jobs)
    gangs = (manifests.gang_crd(),) if any(map(_wants_gang, work.jobs)) else ()
    for definition in (*map(manifests.framework_crd, groups), *gangs):
        body = msgspec.json.encode(definition)
        # A controller that came with the cluster may have been faster.
        with contextlib.suppress(AlreadyExistsError):
            await transport.send(requests.create(CUSTOM_RESOURCE_DEFINITIONS, "", body))


def _wants_gang(job: Job) -> bool:
    return requested_features(job.framework["metadata"].get("annotations") or {}).uses_gang


async def create_others(transport: Transport, work: Work) -> None:
    """In the order of the file, after the namespaces that it speaks of. Raises ApiError and RefusedError."""
    for name in _namespaces(work):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            await transport.send(requests.create(NAMESPACES, "", msgspec.json.encode(namespace)))
        except AlreadyExistsError:
            pass
        except AnsweredError as error:
            raise RefusedError(f"the namespace {name} cannot be had: {error.failure.message}") from error
    known = Kinds(transport.send)
    for body in work.others:
        api_version, kind = body["apiVersion"], body["kind"]
        resource = await known.resource(api_version, kind)
        if resource is None:
            raise RefusedError(f"the cluster knows no {kind} of {api_version}")
        await _create(transport, resource, body)


async def create_framework(transport: Transport, job: Job) -> Framework:
    """Raises ApiError and RefusedError."""
    return codec.decode_framework(await _create(transport, frameworks(job.group), job.framework))


async def _create(transport: Transport, resource: Resource, body: Json) -> bytes:
    namespace = body["metadata"].get("namespace") or names.DEFAULT_NAMESPACE
    request = requests.create(
        resource, namespace if resource.is_namespaced else "", msgspec.json.encode(body), "windlass-run"
    )
    try:
        return await transport.send(request)
    except AnsweredError as error:
        what = f"{body['kind']} {body['metadata']['name']}"
        raise RefusedError(f"the cluster does not take the {what}: {error.failure.message}") from error


def _namespaces(work: Work) -> Sequence[str]:
    """Those that nobody else makes. A cluster of one run has no owner who would."""
    made = {body["metadata"]["name"] for body in work.others if body["kind"] == "Namespace"}
    spoken_of = [
        *(job.namespace for job in work.jobs),
        *(body["metadata"].get("namespace") or "" for body in work.others),
    ]
    return [
        name for name in dict.fromkeys(spoken_of) if name and name not in made | {names.DEFAULT_NAMESPACE}
    ]
