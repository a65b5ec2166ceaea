"""Checks and updates of the CustomResourceDefinitions (statement 1, A8)."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from windlass.controller import definitions
from windlass.controller.definitions import DefinitionMonitor, Flaw, NotEstablishedError
from windlass.kubeapi import access, errors, requests, resources
from windlass.kubeapi.requests import Request, Verb
from windlass.kubeapi.transport import Transport
from windlass.localcluster.server import ApiServer
from windlass.model import names
from windlass.model.base import Json
from windlass.model.settings import Settings
from windlass.wire.crd import manifests
from windlass.wire.crd.manifests import reference_crd

LAUNCHER, CONTROLLER = names.GROUPS
GANGS = f"{names.GANG_PLURAL}.{names.GANG_GROUP}"
MISSING: Json = {}
ESTABLISHED = {"conditions": [{"type": "Established", "status": "True"}]}


class Definitions:
    """A server that keeps definitions and nothing else: those given, and that of Gangs unless a test says otherwise."""

    def __init__(self, *stored: Json, gangs: Json | None = None) -> None:
        first = () if gangs == MISSING else (gangs or manifests.gang_crd(),)
        self.stored = {one["metadata"]["name"]: {"status": ESTABLISHED, **one} for one in (*first, *stored)}
        self.writes: list[str] = []
        self.slept = 0.0
        self.while_asleep: Callable[[], None] = lambda: None
        self.before_write: Callable[[], None] = lambda: None
        self.stored_spec: Callable[[Json], Json] = lambda spec: spec
        self.established_at_once = True
        self.version = 100

    async def send(self, request: Request) -> bytes:
        if request.verb == Verb.GET:
            name = request.path.rpartition("/")[2]
            if name not in self.stored:
                raise errors.from_response(404, {}, _status("NotFound"))
            return msgspec.json.encode(self.stored[name])
        self.before_write()
        body = msgspec.json.decode(request.body)
        name = body["metadata"]["name"]
        if request.verb == Verb.CREATE and name in self.stored:
            raise errors.from_response(409, {}, _status("AlreadyExists"))
        version = self.stored.get(name, {}).get("metadata", {}).get("resourceVersion")
        if request.verb == Verb.UPDATE and body["metadata"].get("resourceVersion") != version:
            raise errors.from_response(409, {}, _status("Conflict"))
        self.writes.append(f"{request.verb} {name}")
        status = ESTABLISHED if self.established_at_once else {}
        spec = self.stored_spec(body["spec"])
        if name not in self.stored or spec != self.stored[name]["spec"]:
            self.version += 1
            version = str(self.version)
        metadata = {**body["metadata"], "resourceVersion": version}
        self.stored[name] = {**body, "metadata": metadata, "spec": spec, "status": status}
        return msgspec.json.encode(self.stored[name])

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.while_asleep()


def _status(reason: str) -> bytes:
    return msgspec.json.encode({"kind": "Status", "reason": reason, "message": reason})


def ours(group: str, **changes: Any) -> Json:
    return {**manifests.framework_crd(group), **changes}


def with_version(group: str, **changes: Any) -> Json:
    definition = manifests.framework_crd(group)
    (version,) = definition["spec"]["versions"]
    return {**definition, "spec": {**definition["spec"], "versions": [{**version, **changes}]}}


def with_status_of(group: str, status: Json) -> Json:
    schema = manifests.framework_schema()
    narrowed = {**schema, "properties": {**schema["properties"], "status": status}}
    return with_version(group, schema={"openAPIV3Schema": narrowed})


def without_suspend(group: str) -> Json:
    schema = manifests.framework_schema()
    spec = schema["properties"]["spec"]
    fields = {name: field for name, field in spec["properties"].items() if name != "suspend"}
    older = {**schema, "properties": {**schema["properties"], "spec": {**spec, "properties": fields}}}
    return with_version(group, schema={"openAPIV3Schema": older})


def without_selectable_fields(group: str) -> Json:
    definition = manifests.framework_crd(group)
    (version,) = definition["spec"]["versions"]
    older = {field: value for field, value in version.items() if field != "selectableFields"}
    return {**definition, "spec": {**definition["spec"], "versions": [older]}}


GOING = {"name": f"frameworks.{CONTROLLER}", "deletionTimestamp": "2026-01-01T00:00:00Z"}
NOT_ACCEPTED = {"conditions": [{"type": "NamesAccepted", "status": "False", "message": "fw is taken"}]}


@pytest.mark.parametrize(
    ("of_controller", "flaw", "words"),
    [
        (None, Flaw.MISSING, ["is missing", "windlass install --crds-only --apply", "--manage-crds"]),
        (ours(CONTROLLER, metadata=GOING), Flaw.DELETING, ["is being deleted"]),
        (ours(CONTROLLER, status={}), Flaw.NOT_ESTABLISHED, ["is not served by the API server"]),
        (ours(CONTROLLER, status=NOT_ACCEPTED), Flaw.NOT_ESTABLISHED, ["fw is taken"]),
        (with_version(CONTROLLER, served=False), Flaw.NOT_SERVED, ["does not serve version v1"]),
        (with_version(CONTROLLER, subresources={}), Flaw.NO_STATUS_SUBRESOURCE, ["no status subresource"]),
        (reference_crd(), Flaw.NO_STATUS_SUBRESOURCE, ["FrameworkController", "--manage-crds"]),
        (
            with_status_of(CONTROLLER, {"type": "object", "properties": {"state": {"type": "string"}}}),
            Flaw.DROPS_STATUS,
            ["a status would lose status.", "and others"],
        ),
        (without_suspend(CONTROLLER), Flaw.DROPS_FIELDS, ["Frameworks cannot use spec.suspend."]),
    ],
)
def test_problem_of_one_definition(of_controller: Json | None, flaw: Flaw, words: list[str]) -> None:
    """It says what it means and what to do, and the other group is served all the same."""
    server = Definitions(ours(LAUNCHER), *([of_controller] if of_controller else []))

    (problem,) = asyncio.run(definitions.check(server.send))

    assert (problem.group, problem.flaw) == (CONTROLLER, flaw)
    assert f"frameworks.{CONTROLLER}" in problem.message
    assert [word for word in words if word not in problem.message] == []
    served = (LAUNCHER, CONTROLLER) if flaw == Flaw.DROPS_FIELDS else (LAUNCHER,)
    assert definitions.served_groups([problem]) == served
    assert server.writes == []


def gangs_with(**changes: Any) -> Json:
    definition = manifests.gang_crd()
    (version,) = definition["spec"]["versions"]
    return {**definition, "spec": {**definition["spec"], "versions": [{**version, **changes}]}}


def without_service() -> Json:
    (version,) = manifests.gang_crd()["spec"]["versions"]
    schema = msgspec.json.decode(msgspec.json.encode(version["schema"]))
    del schema["openAPIV3Schema"]["properties"]["spec"]["properties"]["service"]
    return gangs_with(schema=schema)


@pytest.mark.parametrize(
    ("of_gangs", "flaw", "words"),
    [
        (
            MISSING,
            Flaw.MISSING,
            ["is missing: jobs with a barrier never start", "--manage-crds"],
        ),
        (
            {**manifests.gang_crd(), "metadata": {**GOING, "name": GANGS}},
            Flaw.DELETING,
            ["is being deleted, together with all Gangs"],
        ),
        ({**manifests.gang_crd(), "status": {}}, Flaw.NOT_ESTABLISHED, ["is not served by the API server"]),
        (gangs_with(served=False), Flaw.NOT_SERVED, ["does not serve version v1"]),
        (without_service(), Flaw.DROPS_FIELDS, ["older than this release: Gangs cannot use spec.service."]),
    ],
)
def test_problem_of_the_gangs(of_gangs: Json, flaw: Flaw, words: list[str]) -> None:
    """Frameworks that ask for no barrier are run all the same, and a status is not looked for where none belongs."""
    server = Definitions(*map(ours, names.GROUPS), gangs=of_gangs)

    (problem,) = asyncio.run(definitions.check(server.send))

    assert (problem.group, problem.flaw) == (names.GANG_GROUP, flaw)
    assert GANGS in problem.message
    assert [word for word in words if word not in problem.message] == []
    assert definitions.served_groups([problem]) == names.GROUPS
    assert server.writes == []


@pytest.mark.parametrize("expects_all", [True, False])
def test_missing_definitions_are_reported_unless_they_are_not_needed(
    expects_all: bool, caplog: pytest.LogCaptureFixture
) -> None:
    server = Definitions(ours(CONTROLLER))
    monitor = DefinitionMonitor(server.send, Settings(), expects_all=expects_all)
    assert asyncio.run(monitor.served_groups()) == (CONTROLLER,)
    assert bool(caplog.messages) == expects_all


def test_no_problem_with_our_definitions() -> None:
    server = Definitions(*map(ours, names.GROUPS))
    assert asyncio.run(definitions.check(server.send)) == ()
    assert definitions.served_groups(()) == names.GROUPS


def manage(server: Definitions, timeout: float = 5) -> tuple[str, ...]:
    return asyncio.run(definitions.manage(server.send, 1, timeout, server.sleep))


def name(group: str) -> str:
    return f"frameworks.{group}"


BOTH = [ours(LAUNCHER), ours(CONTROLLER)]


@pytest.mark.parametrize(
    ("stored", "gangs", "writes"),
    [
        ([], MISSING, [f"create {name(LAUNCHER)}", f"create {name(CONTROLLER)}", f"create {GANGS}"]),
        (BOTH, None, []),
        ([ours(LAUNCHER), reference_crd()], None, [f"update {name(CONTROLLER)}"]),
        ([ours(LAUNCHER), without_suspend(CONTROLLER)], None, [f"update {name(CONTROLLER)}"]),
        (
            [ours(LAUNCHER), manifests.framework_crd(CONTROLLER, {("FrameworkSpec", "suspend"): "Hold it."})],
            None,
            [],
        ),
        (BOTH, MISSING, [f"create {GANGS}"]),
        (BOTH, without_service(), [f"update {GANGS}"]),
        (BOTH, manifests.gang_crd({("GangSpec", "service"): "By name."}), []),
    ],
    ids=[
        "missing",
        "right",
        "the reference's",
        "older",
        "with descriptions",
        "of before there were gangs",
        "of older gangs",
        "of gangs with descriptions",
    ],
)
def test_definitions_are_created_or_updated(
    stored: list[Json], gangs: Json | None, writes: list[str]
) -> None:
    server = Definitions(*stored, gangs=gangs)

    done = manage(server)

    assert server.writes == writes
    assert len(done) == len(writes)
    assert asyncio.run(definitions.check(server.send)) == ()


def test_update_keeps_labels_and_has_the_version_that_was_read() -> None:
    metadata = {"name": name(CONTROLLER), "resourceVersion": "7", "labels": {"team": "ml"}}
    server = Definitions(ours(LAUNCHER), {**reference_crd(), "metadata": metadata})

    manage(server)

    assert server.stored[name(CONTROLLER)]["metadata"] == {**metadata, "resourceVersion": "101"}


def test_server_that_drops_fields_is_updated_once() -> None:
    server = Definitions(ours(LAUNCHER), reference_crd())
    server.stored_spec = lambda _: without_suspend(CONTROLLER)["spec"]

    assert manage(server) == (f"updated CustomResourceDefinition {name(CONTROLLER)}",)
    assert server.writes == [f"update {name(CONTROLLER)}"]
    assert manage(server) == ()


def test_manage_adds_selectable_fields_to_an_older_definition() -> None:
    server = Definitions(ours(LAUNCHER), without_selectable_fields(CONTROLLER))

    assert manage(server) == (f"updated CustomResourceDefinition {name(CONTROLLER)}",)
    assert server.stored[name(CONTROLLER)]["spec"] == ours(CONTROLLER)["spec"]


def test_manage_waits_until_definitions_are_served() -> None:
    server = Definitions(ours(LAUNCHER))
    server.established_at_once = False

    def establish() -> None:
        if server.slept >= 3:
            server.stored[name(CONTROLLER)]["status"] = ESTABLISHED

    server.while_asleep = establish

    assert manage(server) == (f"created CustomResourceDefinition {name(CONTROLLER)}",)
    assert server.slept == 3


def test_timeout_names_the_reason() -> None:
    server = Definitions(ours(LAUNCHER, status=NOT_ACCEPTED))
    with pytest.raises(NotEstablishedError, match=f"{name(LAUNCHER)} after 5 s: fw is taken"):
        manage(server)


def test_definition_being_deleted_is_created_again() -> None:
    server = Definitions(ours(LAUNCHER), ours(CONTROLLER, metadata=GOING))

    def is_gone() -> None:
        del server.stored[name(CONTROLLER)]

    server.while_asleep = is_gone

    assert manage(server) == (f"created CustomResourceDefinition {name(CONTROLLER)}",)
    assert server.slept == 1


@pytest.mark.parametrize("stored", [[], [reference_crd(LAUNCHER), reference_crd()]], ids=["create", "update"])
def test_conflict_with_another_replica_is_resolved(stored: list[Json]) -> None:
    server = Definitions(*stored)

    def by_another() -> None:
        for group in names.GROUPS:
            metadata = {"name": name(group), "resourceVersion": "99"}
            server.stored[name(group)] = {**ours(group, metadata=metadata), "status": ESTABLISHED}

    server.before_write = by_another

    assert manage(server) == ()
    assert server.writes == []


def test_forbidden_is_raised() -> None:
    server = Definitions()

    def forbid() -> None:
        raise errors.from_response(403, {}, _status("Forbidden"))

    server.before_write = forbid
    with pytest.raises(errors.ForbiddenError):
        manage(server)


def test_definitions_on_a_server(tmp_path: Path) -> None:
    """From nothing, over the reference's definition, to ours; and the second time nothing is done."""

    async def play() -> list[Any]:
        server, socket = ApiServer(tmp_path / "data"), tmp_path / "socket"
        await server.start("127.0.0.1", 0, socket)
        try:
            async with Transport(access.unix(socket)) as transport:
                send = transport.send
                before = await definitions.check(send)
                body = msgspec.json.encode(reference_crd())
                await send(requests.create(resources.CUSTOM_RESOURCE_DEFINITIONS, "", body))
                with_reference = await definitions.check(send)
                done = await definitions.manage(send, 0.1, 60, asyncio.sleep)
                again = await definitions.manage(send, 0.1, 60, asyncio.sleep)
                return [before, with_reference, done, again, await definitions.check(send)]
        finally:
            await server.stop()

    before, with_reference, done, again, after = asyncio.run(play())
    missing = Flaw.MISSING
    assert [problem.flaw for problem in before] == [missing, missing, missing]
    assert [problem.flaw for problem in with_reference] == [missing, Flaw.NO_STATUS_SUBRESOURCE, missing]
    assert len(done) == 3
    assert (again, after) == ((), ())
