"""A notebook server behind a password, which stands nowhere."""

import json
from typing import Any

import argon2
import kubernetes_schemas
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.model.base import Json
from windlass.model.cluster_config import ServiceType
from windlass.render import jupyter
from windlass.render.jupyter import Notebook
from windlass.render.parts import Part
from windlass.wire import yaml_text

NOTEBOOK = Notebook(
    name="notebook",
    namespace="research",
    image="jupyter:1",
    password="correct horse",  # noqa: S106
    port=8888,
    service_type=ServiceType.LOAD_BALANCER,
)


def changed(**fields: Any) -> Notebook:
    return msgspec.structs.replace(NOTEBOOK, **fields)


def made(notebook: Notebook) -> tuple[Json, Json, Json]:
    secret, deployment, service = (piece.body for piece in jupyter.pieces(notebook))
    return secret, deployment, service


def hash_in(secret: Json) -> str:
    """As JupyterLab reads it. Older notebooks have the same in another file."""
    config = json.loads(secret["stringData"]["jupyter_server_config.json"])
    older = json.loads(secret["stringData"]["jupyter_notebook_config.json"])
    written: str = config["PasswordIdentityProvider"]["hashed_password"]
    assert older == {"NotebookApp": {"password": written}}
    return written


def is_accepted(written: str, password: str) -> bool:
    """As Jupyter asks."""
    algorithm, _, encoded = written.partition(":")
    assert algorithm == "argon2"
    try:
        return argon2.PasswordHasher().verify(encoded, password)
    except argon2.exceptions.VerifyMismatchError:
        return False


@pytest.mark.parametrize(
    "password",
    [
        "a",
        'a"b',
        "it's",
        "a: b # c",
        "{{ 7*7 }}",
        "two\nlines",
        "$(HOME) ${HOME}",
        "pässwörd😀",
        "x" * 1000,
        "\\",
        "yes",
    ],
)
def test_the_password_is_accepted_and_no_other_one(password: str) -> None:
    written = hash_in(made(changed(password=password))[0])
    assert is_accepted(written, password)
    assert not is_accepted(written, password + "x")
    assert not is_accepted(written, "")


@settings(max_examples=20)
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=12))
def test_no_password_stands_in_what_is_rendered(password: str) -> None:
    bodies = made(changed(password=f"hush {password}"))
    assert b"hush" not in b"".join(map(yaml_text.dump, bodies))


def test_the_same_gives_the_same() -> None:
    assert made(NOTEBOOK) == made(NOTEBOOK)


@pytest.mark.parametrize("fields", [{"name": "other"}, {"namespace": "other"}, {"password": "other"}])
def test_two_notebooks_do_not_tell_that_their_passwords_are_alike(fields: dict[str, str]) -> None:
    salts = {hash_in(made(each)[0]).split("$")[4] for each in (NOTEBOOK, changed(**fields))}
    assert len(salts) == 2


def test_what_belongs_together_finds_itself() -> None:
    secret, deployment, service = made(NOTEBOOK)
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    (volume,) = pod["spec"]["volumes"]
    (mount,) = container["volumeMounts"]
    assert volume["secret"]["secretName"] == secret["metadata"]["name"]
    assert mount["name"] == volume["name"]
    assert {"name": "JUPYTER_CONFIG_PATH", "value": mount["mountPath"]} in container["env"]
    assert (
        service["spec"]["selector"]
        == pod["metadata"]["labels"]
        == deployment["spec"]["selector"]["matchLabels"]
    )
    assert service["spec"]["ports"] == [{"port": 8888, "targetPort": 8888}]
    assert "--port=8888" in container["command"]
    assert {each["metadata"]["namespace"] for each in (secret, deployment, service)} == {"research"}


@pytest.mark.parametrize("service_type", ServiceType)
def test_kubernetes_takes_it(service_type: ServiceType) -> None:
    for namespace in ("", "research"):
        notebook = changed(
            service_type=service_type, namespace=namespace, variables=({"name": "A", "value": "1"},)
        )
        for piece in jupyter.pieces(notebook):
            assert piece.part is Part.JUPYTER
            assert list(kubernetes_schemas.faults(piece.body)) == []
            assert ("namespace" in piece.body["metadata"]) is bool(namespace)
        assert made(notebook)[2]["spec"]["type"] == service_type
