"""What a job needs before it starts, carried out step by step: `preparing_plans` says what there will be.

When a step fails, what was made for this job alone goes again. Files stay, and so does the server of them. Companions
that were there before go on.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping

from windlass.client.companions import creation
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, RefusedError
from windlass.client.prerequisites import objects as prerequisites_objects
from windlass.client.prerequisites import waits
from windlass.client.prerequisites.objects import Object
from windlass.client.prerequisites.plan import Preparation
from windlass.kubeapi.errors import AnsweredError, ApiError
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.render.manifest_parts import Part
from windlass.render.storage import preflight
from windlass.render.storage.nfs_shares import Direct, Served

_NO_ADDRESS = ("", "None")

Tell = Callable[[str], None]


class Prepared:
    """What was made, and where the job finds its files."""

    def __init__(
        self, connection: Connection, preparation: Preparation, tell: Tell, show: Tell, owner: str = ""
    ) -> None:
        self.share = preparation.share
        self.servers: tuple[Object, ...] = ()
        """The Deployments of its companions."""
        self._connection = connection
        self._preparation = preparation
        self._name = preparation.job.name
        self._tell = tell
        self._show = show
        self._owner = owner
        self._made: list[Object] = []
        """Taken back when a step fails."""
        self._own: list[Object] = []
        """Of this job alone, and with it they go."""
        self._staying: list[Object] = []
        """Made by this call, to stay."""

    async def carry_out(self) -> None:
        """Raises ClientError and AnsweredError."""
        for body in self._bodies(Part.SECRETS):
            await self._hide(body)
        for body in self._bodies(Part.VOLUMES):
            await self._keep(body)
        await self._serve()
        await self._load()
        await self._check()
        await self._accompany()

    async def give_to(self, framework: Framework) -> None:
        """What was made for it alone goes with it."""
        try:
            await prerequisites_objects.give(self._connection, self._own, framework)
        except AnsweredError as error:
            left = ", ".join(map(str, self._own))
            self._tell(f"{left} will stay when the job goes: {error.failure.message}")

    async def take_back(self) -> None:
        await prerequisites_objects.remove(self._connection, self._made)

    @property
    def what_stays(self) -> str:
        """Empty where nothing does."""
        names = ", ".join(map(str, self._staying))
        return f"What was made for its files stays: {names}." if names else ""

    async def _hide(self, body: Json) -> None:
        """Companions read the job's Secret too: where these go on, so does it."""
        companions = self._preparation.job.companions.values()
        if not companions:
            await self._renew(body)
            return
        is_kept = any(each.keep for each in companions)
        made = await self._adopt(body, is_kept=is_kept)
        self._tell(f"{made} is created" if made.is_new else f"{made} is brought up to date")

    async def _serve(self) -> None:
        bodies = self._bodies(Part.NFS)
        if not bodies:
            return
        made = [await self._keep(body) for body in bodies]
        if isinstance(self.share, Direct):
            return
        by_kind = {each.body["kind"]: each for each in made}
        service, deployment = by_kind["Service"], by_kind["Deployment"]
        address = service.body["spec"].get("clusterIP", "")
        if address in _NO_ADDRESS:
            raise RefusedError(f"the {service} has no address of its own, which nodes could mount: delete it")
        self._tell(f"the NFS server {service.name} is at {address}: waiting until it answers")
        await waits.until_served(self._connection, deployment)
        self.share = Served(address)

    async def _load(self) -> None:
        for body in self._bodies(Part.LOAD_DATA):
            made = await self._renew(body)
            if body["kind"] == "Job":
                self._tell("its data is being loaded")
                await waits.until_loaded(self._connection, made, self._places)
                self._tell("its data is there")

    async def _check(self) -> None:
        seconds = self._preparation.preflight_seconds
        for body in self._bodies(Part.PREFLIGHT) if seconds is not None else ():
            made: list[Object] = []
            try:
                pod = await prerequisites_objects.renewed(self._connection, body, self._name, made.append)
                self._tell("preflight: looking whether its files are there")
                await waits.until_checked(self._connection, pod, self._places, seconds or 0.0)
                self._tell("preflight: all is there")
            finally:
                await asyncio.shield(prerequisites_objects.remove(self._connection, made))

    async def _accompany(self) -> None:
        wanted = self._preparation.job.companions
        if not wanted:
            return
        settled = await creation.settled(self._connection, self._preparation, self._owner, self._tell)
        for companion, each in wanted.items():
            bodies = creation.bodies(self._preparation, companion, self.share, settled)
            made = [await self._adopt(body, is_kept=each.keep) for body in bodies]
            await creation.remove_the_rest(self._connection, self._name, companion, made)
            creation.report(self._preparation, companion, made, settled, self._tell, self._show)
            self.servers += tuple(one for one in made if one.body["kind"] == "Deployment")

    def _bodies(self, part: Part) -> list[Json]:
        """As they are with what is known by now."""
        return [piece.body for piece in self._preparation.pieces(self.share) if piece.part is part]

    @property
    def _places(self) -> Mapping[str, str]:
        """Of its volumes, in words."""
        volumes = self._preparation.job.volumes
        return {name: preflight.place_of(volume, name, self.share) for name, volume in volumes.items()}

    async def _renew(self, body: Json) -> Object:
        made = await prerequisites_objects.renewed(self._connection, body, self._name, self._made.append)
        self._own.append(made)
        self._tell(f"{made} is created")
        return made

    async def _adopt(self, body: Json, *, is_kept: bool) -> Object:
        made = await prerequisites_objects.adopted(
            self._connection, body, self._name, self._made.append, owner=self._owner, is_kept=is_kept
        )
        if not is_kept:
            self._own.append(made)
        return made

    async def _keep(self, body: Json) -> Object:
        made = await prerequisites_objects.kept(self._connection, body, self._name, self._staying.append)
        self._tell(f"{made} is created" if made.is_new else f"{made} is there already, and is used again")
        return made


@contextlib.asynccontextmanager
async def prepared(
    connection: Connection,
    preparation: Preparation,
    tell: Tell,
    *,
    show: Tell | None = None,
    is_ephemeral: bool = False,
    owner: str = "",
) -> AsyncIterator[Prepared]:
    """All that the job needs is there in the block. If that fails, what was made for the job alone goes again.

    `show` is told of passwords that were made up, in place of `tell`. `is_ephemeral`: the cluster goes too, and nobody
    need hear of what stays on it. `owner` is the uid of a Framework that is there already: its companions go on. Raises
    ClientError.
    """
    work = Prepared(connection, preparation, tell, show or tell, owner)
    try:
        await work.carry_out()
        yield work
    except (ClientError, ApiError) as error:
        await asyncio.shield(work.take_back())
        explained = connection.explained(error)
        if is_ephemeral or not work.what_stays:
            raise explained from error
        raise type(explained)(f"{str(explained).removesuffix('.')}. {work.what_stays}") from error
    except (Exception, asyncio.CancelledError):
        await asyncio.shield(work.take_back())
        if work.what_stays and not is_ephemeral:
            tell(work.what_stays)
        raise
