"""Render a config with imports and resources to jobs and other objects.

A tensorflow-cluster is a job whose tasks are idle TensorFlow servers. Its plain Services are named
`{job}-{index}` after its TensorFlow jobs, not after the cluster, because old notebooks contain these names.
"""

from collections.abc import Iterator, Mapping

import msgspec

from windlass.jobfile import cluster_config as jobfile_config
from windlass.model import names, role_names
from windlass.model.base import Json
from windlass.model.cluster_config import JupyterService, Resource, ResourceType, TensorFlowCluster
from windlass.model.companions import Companion
from windlass.model.feature_annotations import Runtime, TaskTypes
from windlass.model.job import Job, Role
from windlass.render import cluster_spec, validation
from windlass.render.companions import jupyter, password_files, passwords, servers, starter
from windlass.render.companions.jupyter import HomeFolder
from windlass.render.companions.password_files import ALL_USERS
from windlass.render.companions.servers import Server
from windlass.render.manifest_parts import Part, RenderedObject
from windlass.render.plain import manifests
from windlass.wire import diagnostics, kubernetes_validation, structural_validation
from windlass.wire.diagnostics import Diagnostic
from windlass.wire.yaml import parse as yaml_parse
from windlass.wire.yaml import tree

_PREFIX = ""


class _Notebook(msgspec.Struct, frozen=True):
    """A notebook server with its password."""

    properties: JupyterService
    name: str
    password: str
    is_password_generated: bool


class ConvertedConfig(msgspec.Struct, frozen=True):
    jobs: tuple[Job, ...] = ()
    notebooks: tuple[_Notebook, ...] = ()
    objects: tuple[Json, ...] = ()
    """Objects from templates of the user."""
    prefix: str = _PREFIX
    """Prefix of task names in plain objects."""

    @property
    def generated_passwords(self) -> dict[str, str]:
        """Generated passwords, by notebook. They are shown once."""
        return {
            notebook.name: notebook.password for notebook in self.notebooks if notebook.is_password_generated
        }

    def rendered_objects(self, *, is_plain: bool) -> tuple[RenderedObject, ...]:
        """Return all objects except the jobs. A notebook gets the addresses of the first cluster.

        Each call hashes the passwords with new salts.
        """
        return (
            *(RenderedObject(Part.OTHERS, body) for body in self.objects),
            *(
                RenderedObject(Part.JUPYTER, body)
                for notebook in self.notebooks
                for body in servers.objects(self._server(notebook, is_plain=is_plain))
            ),
        )

    def _server(self, notebook: _Notebook, *, is_plain: bool) -> Server:
        properties = notebook.properties
        cluster = self.jobs[0] if self.jobs else None
        variables = [servers.address_variable()]
        if cluster is not None:
            variables.append({"name": servers.JOB_VARIABLE, "value": cluster.name})
            variables.append(_cluster_variable(cluster, properties.namespace, is_plain=is_plain))
        server = Server(
            companion=Companion.JUPYTER,
            name=notebook.name,
            job=notebook.name,
            namespace=properties.namespace,
            port=properties.port,
            service_type=properties.service_type,
            readiness_path=jupyter.READINESS_PATH,
            container={"name": str(Companion.JUPYTER), "image": properties.image, "env": variables},
            pod=servers.WITHOUT_SERVICE_LINKS,
            hashes={ALL_USERS: password_files.hash_password(Companion.JUPYTER, notebook.password)},
        )
        return jupyter.with_jupyterlab(
            server, HomeFolder(first_notebook="" if cluster is None else starter.notebook(cluster))
        )


def check(node: tree.Node, path: str, templates: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Yield the diagnostics of a config at `path` of its document. `templates` are the texts of the imported files, by
    path."""
    found = list(jobfile_config.check(node, path, templates))
    yield from found
    if any(diagnostic.is_error for diagnostic in found):
        return
    config = jobfile_config.config_of(node)
    nodes = tree.items_of(tree.dig(node, "resources"))
    for index, resource in enumerate(config.resources):
        at = diagnostics.item(diagnostics.field(path, "resources"), index)
        template = jobfile_config.template_of(config, resource.type, templates)
        if template is not None:
            yield from _check_template(nodes[index], at, resource, template, templates)
        elif jobfile_config.built_in(config, resource.type) is ResourceType.TENSORFLOW_CLUSTER:
            yield from _check_job(nodes[index], at, _job(resource))
        else:
            yield from _check_password(nodes[index], at)


def convert(node: tree.Node, templates: Mapping[str, str]) -> ConvertedConfig:
    """Convert a config that has no errors."""
    config = jobfile_config.config_of(node)
    jobs: list[Job] = []
    notebooks: list[_Notebook] = []
    objects: list[Json] = []
    for resource in config.resources:
        path = jobfile_config.template_of(config, resource.type, templates)
        if path is not None:
            objects += map(tree.plain, _objects(_rendered(resource, path, templates)))
        elif jobfile_config.built_in(config, resource.type) is ResourceType.TENSORFLOW_CLUSTER:
            jobs.append(_job(resource))
        else:
            notebooks.append(_notebook(resource))
    return ConvertedConfig(tuple(jobs), tuple(notebooks), tuple(objects))


# Built-in types


def _job(resource: Resource) -> Job:
    """Return a job whose tasks run idle TensorFlow servers.

    Its job names are not changed to TensorFlow's task types, because old notebooks contain them.
    """
    properties = msgspec.convert(tree.without_nulls(resource.properties), TensorFlowCluster)
    has_other_types = any(role_names.type_of(each.name) != each.name for each in properties.jobs)
    return Job(
        name=resource.name or str(ResourceType.TENSORFLOW_CLUSTER),
        namespace=properties.namespace,
        runtime=Runtime.TENSORFLOW,
        image=properties.image,
        annotations={names.TASK_TYPES_ANNOTATION: str(TaskTypes.ROLES)} if has_other_types else {},
        idle=True,
        roles={each.name: Role(tasks=each.num_tasks, port=each.port) for each in properties.jobs},
    )


def _notebook(resource: Resource) -> _Notebook:
    properties = msgspec.convert(tree.without_nulls(resource.properties), JupyterService)
    return _Notebook(
        properties,
        resource.name or str(ResourceType.JUPYTER_SERVICE),
        properties.password or passwords.generate(),
        is_password_generated=not properties.password,
    )


def _cluster_variable(job: Job, namespace: str, *, is_plain: bool) -> Json:
    """Return the variable with the cluster spec. It refers to the ConfigMap of plain objects if that is in
    `namespace`; otherwise it contains the value."""
    if is_plain and job.namespace == namespace:
        key = {"name": manifests.cluster_name(job.name), "key": manifests.CLUSTER_SPEC}
        return {"name": cluster_spec.VARIABLE, "valueFrom": {"configMapKeyRef": key}}
    addresses = cluster_spec.of_job(job, namespace, is_plain=is_plain, prefix=_PREFIX)
    return {"name": cluster_spec.VARIABLE, "value": addresses}


def _check_job(node: tree.Node, path: str, job: Job) -> Iterator[Diagnostic]:
    for diagnostic in validation.diagnostics_of(job):
        if diagnostic.is_error:
            yield diagnostics.error(node, path, diagnostic.message, diagnostic.rule)


def _check_password(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    """Check a password without quoting it."""
    found = tree.dig(node, "properties", "password")
    text = tree.text_of(found)
    problem = "" if text is None else passwords.problem_of(text)
    if found is not None and problem:
        message = f"invalid password: {problem}. Choose another one, or remove it: then one is generated and shown once"
        yield diagnostics.error(found, diagnostics.field(path, "properties", "password"), message)


# Templates


def _rendered(resource: Resource, path: str, templates: Mapping[str, str]) -> tree.Parsed:
    """Render a template and parse its output. Raises `jinja.TemplateError`."""
    from windlass.render.templates import jinja

    name = resource.name or resource.type
    variables = {
        **resource.properties,
        "name": name,
        "type": resource.type,
        "properties": resource.properties,
        "env": {"name": name, "namespace": resource.properties.get("namespace") or ""},
    }
    text = jinja.render(templates[path], path, variables, templates, trim_blocks=True)
    return yaml_parse.parse(text.encode(errors="surrogatepass"))


def _objects(parsed: tree.Parsed) -> Iterator[tree.Node]:
    """Yield the objects. A List is replaced by its items."""
    for document in parsed.documents:
        if document.is_empty:
            continue
        is_list = (tree.text_of(tree.dig(document.root, "kind")) or "").endswith("List")
        yield from tree.items_of(tree.dig(document.root, "items")) if is_list else (document.root,)


def _check_template(
    node: tree.Node, path: str, resource: Resource, template: str, templates: Mapping[str, str]
) -> Iterator[Diagnostic]:
    """Check the output of a template. Report only the first error, or each warning once, with its line in the
    output."""
    from windlass.render.templates import jinja

    at = diagnostics.field(path, "type")
    type_node = tree.dig(node, "type") or node
    try:
        parsed = _rendered(resource, template, templates)
    except jinja.TemplateError as error:
        yield diagnostics.error(type_node, at, f"the template cannot be rendered: {error}")
        return
    found = [] if parsed.failure is None else [parsed.failure]
    found += [diagnostic for document in parsed.documents for diagnostic in document.diagnostics]
    found += [diagnostic for each in _objects(parsed) for diagnostic in _check_object(each)]
    if not found and not any(_objects(parsed)):
        yield diagnostics.error(type_node, at, f"{template} renders nothing, expected Kubernetes objects")
    for diagnostic in found[:1]:
        message = f"the output of {template} is invalid: line {diagnostic.line}: {diagnostic.message}"
        yield diagnostics.error(type_node, at, message, diagnostic.rule)
    if not found:
        yield from _check_api_versions(type_node, at, template, parsed)


def _check_api_versions(
    type_node: tree.Node, path: str, template: str, parsed: tree.Parsed
) -> Iterator[Diagnostic]:
    """Warn once about each removed API version of a kind."""
    warnings: dict[str, Diagnostic] = {}
    for each in _objects(parsed):
        for diagnostic in kubernetes_validation.check_api_version(each, ""):
            warnings.setdefault(diagnostic.message, diagnostic)
    for diagnostic in warnings.values():
        message = f"the output of {template}: line {diagnostic.line}: {diagnostic.message}"
        yield diagnostics.warning(type_node, path, message, diagnostic.rule)


def _check_object(node: tree.Node) -> Iterator[Diagnostic]:
    if not isinstance(node, tree.Mapping):
        expected = "a Kubernetes object: a mapping with apiVersion, kind and metadata"
        yield from structural_validation.wrong_value(node, expected, "")
        return
    for keys in (("apiVersion",), ("kind",), ("metadata", "name")):
        if not tree.text_of(tree.dig(node, *keys)):
            message = f"this object has no {'.'.join(keys)}"
            yield diagnostics.error(node, "", message, diagnostics.Rule.MISSING_FIELD)
