"""`windlass render`: what a cluster would be given, as a file for kubectl. How it is made is in `windlass.render`."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from windlass.cli import atomic_files, errors, job_files, parameters
from windlass.cli.errors import CommandError
from windlass.model.companions import Companion
from windlass.render.manifest_parts import COMPANIONS, Part
from windlass.runner import exit_codes

if TYPE_CHECKING:
    from windlass.client.prerequisites.plan import Preparation
    from windlass.client.submit.sources import Source
    from windlass.model.base import Json
    from windlass.model.job import Job
    from windlass.render.companions.resolved import ByUser
    from windlass.render.documents import Submission
    from windlass.render.manifest_parts import Piece
    from windlass.render.storage.nfs_shares import Share

FRAMEWORK = "framework"
PLAIN = "plain"
STDOUT = "-"

_HOST = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*")

_MOUNTING = frozenset({Part.LOAD_DATA, Part.PREFLIGHT, *COMPANIONS, Part.FRAMEWORK, Part.ROLES})
"""Parts with pods that have the job's volumes."""


class Wanted(msgspec.Struct, frozen=True):
    """What the command line says of it."""

    file: str
    target: str
    namespace: str
    nfs_server: str
    only: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        return self.target == PLAIN


@click.command()
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--config", metavar="FILE", help="Alternative to the argument FILE.")
@click.option(
    "--out",
    metavar="FILE",
    help="Output file, written atomically (default: standard output).",
)
@click.option(
    "--target",
    type=click.Choice([FRAMEWORK, PLAIN]),
    help="Kind of output: Frameworks for the Windlass controller, or plain objects for a cluster without it "
    "(default: framework; plain for a config with resources).",
)
@click.option(
    "--only",
    type=click.Choice([str(part) for part in Part]),
    multiple=True,
    help="Part to print (default: all). Repeatable.",
)
@click.option(
    "--nfs-server",
    default="",
    metavar="ADDRESS",
    help="Address of the job's own NFS server: the ClusterIP of its Service.",
)
@click.option(
    "--namespace",
    "-n",
    default="",
    metavar="NAME",
    callback=parameters.namespace,
    help="Namespace of the objects that do not set one.",
)
def render(
    file: str | None,
    config: str | None,
    out: str | None,
    target: str | None,
    only: tuple[str, ...],
    nfs_server: str,
    namespace: str,
) -> None:
    """Print the Kubernetes objects for the jobs in FILE. - reads standard input.

    The output is the same for the same file, except for password hashes, which are salted. A generated password is
    printed once, to standard error. The command does not contact a cluster.

    \b
        windlass render job.yaml | kubectl create -f -
        windlass render --config job.yaml --out rendered.yaml --target plain
        windlass render job.yaml --only secrets --only code
    """
    named = _one_of(file, config)
    out = None if out == STDOUT else out
    if out is not None:
        job_files.check_out(named, out)
    source = job_files.source(named, namespace, needs_a_job=False)
    usual = PLAIN if source.contents.is_config else FRAMEWORK
    wanted = Wanted(job_files.called(named), target or usual, namespace, _address(nfs_server), only)
    data = _written(_rendered(source, wanted), wanted)
    if out is None:
        click.echo(data, nl=False)
        return
    try:
        atomic_files.create(Path(out), data, may_replace=True)
    except OSError as error:
        raise CommandError(f"--out: {errors.of_the_system(error, out)}") from error


# What the command line says


def _one_of(file: str | None, config: str | None) -> str:
    if file is not None and config is not None:
        raise click.UsageError("FILE is given twice, as an argument and by --config: leave one of them out.")
    named = config if file is None else file
    if named is None:
        raise click.UsageError("Missing argument 'FILE': a job file, or - for the standard input.")
    return named


def _address(text: str) -> str:
    if text and not _HOST.fullmatch(text):
        raise click.BadParameter(
            f"found {text!r}, expected an address such as 10.96.0.12", param_hint="--nfs-server"
        )
    return text


def _warn(wanted: Wanted, message: str) -> None:
    _tell(wanted, f"warning: {message}")


def _tell(wanted: Wanted, line: str) -> None:
    click.echo(f"{wanted.file}: {line}", err=True)


# What it becomes


def _rendered(source: "Source", wanted: Wanted) -> "Iterator[Json]":
    """First what stands in the file as it is, then each job, in the order in which a cluster is to have them."""
    from windlass.client.companions import resolution

    beside = source.contents.beside(is_plain=wanted.is_plain)
    pieces = [
        *(piece for piece in beside if piece.part is Part.OTHERS),
        *(
            piece
            for submission in source.contents.submissions
            for piece in sorted(_pieces(submission, source, wanted), key=_place)
        ),
        *(piece for piece in beside if piece.part is not Part.OTHERS),
    ]
    found = {str(piece.part) for piece in pieces}
    for part in wanted.only:
        if part not in found:
            there = ", ".join(str(each) for each in Part if str(each) in found)
            message = f"--only {part}: there is no such part of it. It has: {there}"
            raise _refused(wanted, [message])
    # A pod that looks whether all is there says nothing while the rest is created beside it.
    wanted_parts = set(wanted.only) or found - {str(Part.PREFLIGHT)}
    if str(Part.JUPYTER) in wanted_parts:
        for name, password in source.contents.shown.items():
            _tell(wanted, resolution.shown_once(f"the password of {name}", password))
    yield from (piece.body for piece in pieces if piece.part in wanted_parts)


def _place(piece: "Piece") -> int:
    return list(Part).index(piece.part)


def _pieces(submission: "Submission", source: "Source", wanted: Wanted) -> "tuple[Piece, ...]":
    from windlass.render import manifest
    from windlass.render.manifest_parts import Piece

    is_elsewhere = wanted.namespace and submission.namespace not in ("", wanted.namespace)
    if is_elsewhere:
        message = (
            f"the job {submission.name} is for the namespace {submission.namespace}, and --namespace says "
            f"{wanted.namespace}: leave one of them out"
        )
        raise _refused(wanted, [message])
    if submission.job is not None:
        namespace = submission.job.namespace or wanted.namespace
        job = msgspec.structs.replace(submission.job, namespace=namespace)
        return _pieces_of_job(job, submission.prefix, source, wanted)
    framework = submission.framework()
    if wanted.is_plain:
        message = (
            f"{submission.name} is a Framework already, which only a controller runs: render it with --target "
            "framework, or write a job file in its place"
        )
        raise _refused(wanted, [message])
    named = manifest.in_namespace(framework, wanted.namespace) if wanted.namespace else framework
    return (Piece(Part.FRAMEWORK, named),)


def _pieces_of_job(job: "Job", prefix: str | None, source: "Source", wanted: Wanted) -> "tuple[Piece, ...]":
    from windlass.render import bundle
    from windlass.render.documents import Submission

    if Submission(job=job).image_is_missing:
        message = (
            f"the job {job.name} has no image, and only a cluster of Windlass's own needs none: write one into the job "
            "file, such as `image: python:3.12`"
        )
        raise _refused(wanted, [message])
    refused = list(bundle.refusals(job, is_plain=wanted.is_plain, prefix=prefix))
    if refused:
        raise _refused(wanted, refused)
    for note in bundle.notes(job, is_plain=wanted.is_plain):
        _warn(wanted, note)
    archive = _packed(job, source)
    prepared = _prepared(job, source, wanted)
    for line in _passwords(job, prepared.settled.shown if prepared is not None else {}):
        _tell(wanted, line)
    return bundle.pieces(
        job,
        is_plain=wanted.is_plain,
        archive=archive,
        share=_share(job, wanted),
        folders=None if prepared is None else prepared.folders,
        prefix=prefix,
        settled=None if prepared is None else prepared.settled,
    )


def _refused(wanted: Wanted, messages: Iterable[str]) -> CommandError:
    return CommandError("\n".join(f"{wanted.file}: {message}" for message in messages), exit_codes.USAGE)


def _packed(job: "Job", source: "Source") -> bytes | None:
    """The code. Raises CommandError."""
    from windlass.cli import cluster_options
    from windlass.client.errors import ClientError
    from windlass.client.submit import code_archive
    from windlass.render.documents import Submission

    try:
        path = source.code_of(Submission(job=job))
        return None if path is None else code_archive.pack(path).data
    except ClientError as error:
        raise cluster_options.command_error(error) from error


def _prepared(job: "Job", source: "Source", wanted: Wanted) -> "Preparation | None":
    """Its folders are read, and its passwords, where somebody asks for what has them. Raises CommandError."""
    from windlass.cli import cluster_options
    from windlass.client.errors import ClientError
    from windlass.client.prerequisites import plan as prerequisites_plan

    if wanted.only:
        job = job.with_companions([each for each in Companion if each in wanted.only])
    try:
        return prerequisites_plan.planned(job, job.namespace, source.folder, is_one_machine=False)
    except ClientError as error:
        raise cluster_options.command_error(error) from error


def _passwords(job: "Job", shown: "Mapping[Companion, ByUser]") -> Iterator[str]:
    from windlass.client.companions import resolution

    for companion, by_user in shown.items():
        for user, password in by_user.items():
            whose = f"{user} at {companion}" if user else companion
            yield resolution.shown_once(f"the password of {whose} of the job {job.name}", password)


def _share(job: "Job", wanted: Wanted) -> "Share | None":
    """By the name of its Service where nobody says an address: that is known before anything is created."""
    from windlass.render.storage import nfs_shares

    if job.nfs_server is None:
        return None
    if wanted.nfs_server:
        return nfs_shares.Served(wanted.nfs_server)
    share = nfs_shares.by_name(job)
    is_mounted = not wanted.only or not _MOUNTING.isdisjoint(wanted.only)
    if is_mounted:
        service = nfs_shares.server_name(job.name)
        namespace = f" -n {job.namespace}" if job.namespace else ""
        _warn(
            wanted,
            f"the NFS server of the job {job.name} is written by its name, {share.address}, and most nodes cannot "
            "resolve the names of Services. Create the server first (--only nfs), and render the rest with "
            f"--nfs-server $(kubectl get service {service}{namespace} -o jsonpath='{{.spec.clusterIP}}')",
        )
    return share


def _written(bodies: "Iterable[Json]", wanted: Wanted) -> bytes:
    from windlass.wire.yaml import dump as yaml_dump

    made: dict[str, bytes] = {}
    for body in bodies:
        called = _called(body)
        if called in made:
            message = f"there would be two of one name: {called}. Rename one of the jobs or roles that it is made of"
            raise _refused(wanted, [message])
        if _has_a_nul(body):
            message = f"a text of the {called} has a NUL in it, which no program can be given: leave it out"
            raise _refused(wanted, [message])
        made[called] = yaml_dump.dump(body)
    return b"---\n".join(made.values())


def _called(body: "Json") -> str:
    """No other object of a cluster is called so."""
    metadata = body["metadata"]
    namespace = f" of the namespace {metadata['namespace']}" if metadata.get("namespace") else ""
    return f"{body.get('kind')} {metadata.get('name')}{namespace}"


def _has_a_nul(value: object) -> bool:
    match value:
        case str():
            return "\0" in value
        case dict():
            return any(_has_a_nul(each) for pair in value.items() for each in pair)
        case list() | tuple():
            return any(map(_has_a_nul, value))
    return False
