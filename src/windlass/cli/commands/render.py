"""The command `windlass render`: print the objects of a job as a file for kubectl. `windlass.render` creates them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import click
import msgspec

from windlass.cli import job_files, parameters
from windlass.cli.errors import CommandError
from windlass.jobfile.overrides import Overrides
from windlass.model.companions import Companion
from windlass.render.manifest_parts import COMPANIONS, Part
from windlass.runner import exit_codes

if TYPE_CHECKING:
    from windlass.client.submit.plan import Target
    from windlass.client.submit.sources import Source
    from windlass.model.base import Json
    from windlass.model.job import Job
    from windlass.render.companions.password_files import ByUser
    from windlass.render.documents import Submission
    from windlass.render.manifest_parts import RenderedObject
    from windlass.render.ssh import KeyPair
    from windlass.render.storage.nfs_shares import Share

FRAMEWORK = "framework"
PLAIN = "plain"

_HOST = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*")

_PARTS_WITH_VOLUMES = frozenset({Part.LOAD_DATA, Part.PREFLIGHT, *COMPANIONS, Part.FRAMEWORK, Part.ROLES})
"""Parts whose pods mount the job's volumes."""


class RenderArguments(msgspec.Struct, frozen=True):
    file: str
    target: str
    namespace: str
    nfs_server: str
    only: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        return self.target == PLAIN


@click.command(cls=parameters.WithArguments)
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--config", metavar="FILE", help="Alternative to the argument FILE.")
@parameters.out
@click.option(
    "--target",
    type=click.Choice([FRAMEWORK, PLAIN]),
    help="Output: Frameworks for the Windlass controller, or plain objects for a cluster without it "
    "(default: framework; plain for a file with `imports` and `resources`).",
)
@click.option(
    "--only",
    type=click.Choice([str(part) for part in Part]),
    multiple=True,
    help="Part to print (default: all except preflight). With --target plain, cluster is the ConfigMap with the "
    "addresses of the tasks, services are their Services, and roles are their Jobs and StatefulSets. Repeatable.",
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
@parameters.overrides
def render(
    file: str | None,
    config: str | None,
    out: str | None,
    target: str | None,
    only: tuple[str, ...],
    nfs_server: str,
    namespace: str,
    overrides: Overrides,
) -> None:
    """Print the Kubernetes objects for the jobs in FILE. If FILE is -, it is read from standard input.

    The output is the same for the same file and code, except for password hashes, which are salted, and the SSH keys of
    MPI jobs. A generated password is printed once, to standard error. The command does not contact a cluster.

    \b
        windlass render job.yaml | kubectl create -f -
        windlass render --config job.yaml --out rendered.yaml --target plain
        windlass render job.yaml --only secrets --only code
    """
    if file is not None and config is not None:
        raise click.UsageError("FILE is given twice, as an argument and with --config: remove one of them.")
    path = config if file is None else file
    if path is None:
        raise click.UsageError("Missing argument 'FILE': a job file, or - for standard input.")
    job_files.check_output_path(path, out)
    source = job_files.source(path, namespace, overrides, needs_a_job=False, packs_code=_needs_code(only))
    if nfs_server and not _HOST.fullmatch(nfs_server):
        message = f"found {nfs_server!r}, expected an address, e.g. 10.96.0.12"
        raise click.BadParameter(message, param_hint="--nfs-server")
    default_target = PLAIN if source.contents.has_config else FRAMEWORK
    arguments = RenderArguments(
        job_files.display_name(path), target or default_target, namespace, nfs_server, only
    )
    data = rendered_yaml(source, arguments)
    job_files.write_output(data, out)


def rendered_yaml(source: "Source", arguments: RenderArguments) -> bytes:
    """Return the selected objects as YAML. Raises CommandError."""
    return _yaml(_rendered(source, arguments), arguments)


def _needs_code(only: tuple[str, ...]) -> bool:
    """Return whether the output contains the code or the pods that use it."""
    return not only or bool({Part.CODE, Part.FRAMEWORK, Part.ROLES} & set(only))


def _print(arguments: RenderArguments, line: str) -> None:
    click.echo(f"{arguments.file}: {line}", err=True)


def _rendered(source: "Source", arguments: RenderArguments) -> "Iterator[Json]":
    """Yield the selected objects: first the manifests of the file, then the objects of each job in the order of their
    creation, then the objects of configs."""
    from windlass.client.companions import resolution

    extra = source.contents.extra_objects(is_plain=arguments.is_plain)
    submissions = source.contents.submissions
    objects = [
        *(rendered for rendered in extra if rendered.part is Part.OTHERS),
        *(
            rendered
            for submission in submissions
            for rendered in sorted(
                _objects(submission, source, arguments), key=lambda each: list(Part).index(each.part)
            )
        ),
        *(rendered for rendered in extra if rendered.part is not Part.OTHERS),
    ]
    companions = (each for submission in submissions if submission.job for each in submission.job.companions)
    available = {*(str(rendered.part) for rendered in objects), *map(str, companions)}
    for part in arguments.only:
        if part not in available:
            parts = ", ".join(str(each) for each in Part if str(each) in available)
            raise _invalid(arguments, [f"--only {part}: the file has no such part. Parts: {parts}"])
    # By default, omit the preflight pod: it cannot succeed while the other objects are still being created.
    selected = set(arguments.only) or available - {str(Part.PREFLIGHT)}
    if str(Part.JUPYTER) in selected:
        for name, password in source.contents.generated_passwords.items():
            _print(arguments, resolution.password_notice(f"generated password of {name}", password))
    yield from (rendered.body for rendered in objects if rendered.part in selected)


def _objects(
    submission: "Submission", source: "Source", arguments: RenderArguments
) -> "tuple[RenderedObject, ...]":
    from windlass.client.submit import plan as planner
    from windlass.render.manifest_parts import RenderedObject

    job_files.require_namespace(arguments.file, submission, arguments.namespace)
    if submission.job is not None:
        return _job_objects(submission, submission.job, source, arguments)
    if arguments.is_plain:
        message = (
            f"{submission.name} is a Framework, which needs a controller: use --target framework, or write a job file "
            "instead"
        )
        raise _invalid(arguments, [message])
    return (RenderedObject(Part.FRAMEWORK, planner.render_framework(submission, _target(arguments))),)


def _job_objects(
    submission: "Submission", job: "Job", source: "Source", arguments: RenderArguments
) -> "tuple[RenderedObject, ...]":
    from windlass.client.submit import plan as planner
    from windlass.client.submit.plan import SubmitOptions
    from windlass.render import bundle

    errors = list(bundle.errors(job, is_plain=arguments.is_plain, prefix=submission.plain_prefix))
    if errors:
        raise _invalid(arguments, errors)
    companions = tuple(each for each in Companion if not arguments.only or each in arguments.only)
    planned = planner.plan_job(source, submission, _target(arguments), SubmitOptions(companions=companions))
    prerequisites = planned.prerequisites
    job = (planned.submission.job or job).with_companions(companions)
    for warning in bundle.warnings(job, is_plain=arguments.is_plain):
        _print(arguments, f"warning: {warning}")
    for line in _password_notices(job, prerequisites.resolved.generated if prerequisites is not None else {}):
        _print(arguments, line)
    ssh_key = _ssh_key(job, arguments)
    return bundle.objects(
        job,
        framework=None if arguments.is_plain else planned.framework,
        archive=planned.archive.data if planned.archive is not None else None,
        share=_share(job, arguments),
        folders=None if prerequisites is None else prerequisites.folders,
        prefix=submission.plain_prefix,
        resolved=None if prerequisites is None else prerequisites.resolved,
        ssh_key=ssh_key,
    )


def _ssh_key(job: "Job", arguments: RenderArguments) -> "KeyPair | None":
    """Generate the SSH key of a job if the Secret with it is printed, and report that."""
    from windlass.client.prerequisites import ssh_keys
    from windlass.model import names
    from windlass.render import ssh

    is_printed = not arguments.only or Part.SSH in arguments.only
    if not ssh.has_key(job) or not is_printed:
        return None
    _print(
        arguments,
        f"generated an SSH key for the job {job.name}: Secret {names.ssh_secret_name(job.name)} contains the private "
        "key, so keep the output confidential",
    )
    return ssh_keys.generate()


def _target(arguments: RenderArguments) -> "Target":
    from windlass.client.submit.plan import Target

    return Target(namespace=arguments.namespace, description="Kubernetes", nfs_address=arguments.nfs_server)


def _invalid(arguments: RenderArguments, messages: Iterable[str]) -> CommandError:
    return CommandError("\n".join(f"{arguments.file}: {message}" for message in messages), exit_codes.USAGE)


def _password_notices(job: "Job", generated: "Mapping[Companion, ByUser]") -> Iterator[str]:
    from windlass.client.companions import resolution

    for companion, by_user in generated.items():
        for user, password in by_user.items():
            whose = f"{user} at {companion}" if user else companion
            yield resolution.password_notice(f"generated password of {whose} of the job {job.name}", password)


def _share(job: "Job", arguments: RenderArguments) -> "Share | None":
    """Return the share of the job's own NFS server; None if the job has none. The address is --nfs-server, else the DNS
    name of the server's Service."""
    from windlass.render.storage import nfs_shares

    if job.nfs_server is None:
        return None
    if arguments.nfs_server:
        return nfs_shares.Served(arguments.nfs_server)
    share = nfs_shares.share_with_dns_name(job)
    is_mounted = not arguments.only or not _PARTS_WITH_VOLUMES.isdisjoint(arguments.only)
    if is_mounted:
        service = nfs_shares.server_name(job.name)
        namespace = f" -n {job.namespace}" if job.namespace else ""
        _print(
            arguments,
            f"warning: the address of the NFS server of the job {job.name} is the name {share.address}, which most "
            "nodes cannot resolve. Create the server first (--only nfs), and render the rest with "
            f"--nfs-server $(kubectl get service {service}{namespace} -o jsonpath='{{.spec.clusterIP}}')",
        )
    return share


def _yaml(bodies: "Iterable[Json]", arguments: RenderArguments) -> bytes:
    from windlass.wire.yaml import dump as yaml_dump

    texts: dict[str, bytes] = {}
    for body in bodies:
        name = _full_name(body)
        if name in texts:
            message = f"two objects have the same name: {name}. Rename one of the jobs or roles"
            raise _invalid(arguments, [message])
        if _contains_nul(body):
            message = f"a value in {name} contains a NUL character, which a program cannot receive: remove it"
            raise _invalid(arguments, [message])
        texts[name] = yaml_dump.dump(body)
    return b"---\n".join(texts.values())


def _full_name(body: "Json") -> str:
    """Return kind, name and namespace, which identify an object."""
    metadata = body["metadata"]
    namespace = f" in the namespace {metadata['namespace']}" if metadata.get("namespace") else ""
    return f"{body.get('kind')} {metadata.get('name')}{namespace}"


def _contains_nul(value: object) -> bool:
    match value:
        case str():
            return "\0" in value
        case dict():
            return any(_contains_nul(each) for pair in value.items() for each in pair)
        case list() | tuple():
            return any(map(_contains_nul, value))
    return False
