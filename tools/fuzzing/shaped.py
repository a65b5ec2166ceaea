"""Requests made by schemathesis from the server's own OpenAPI documents: as they say, and as they do not say.

What is made of each example is decided in `aims`. Answers must look as the documents say.
"""

import json
from collections.abc import Iterator
from random import Random
from typing import Any, cast

import hypothesis
import schemathesis
from hypothesis import strategies
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.core.result import Ok
from schemathesis.openapi.checks import JsonSchemaError

from fuzzing import aims, objects, values
from fuzzing.session import Session
from fuzzing.wire import Answer, Line, Request

Operation = schemathesis.APIOperation[Any, Any, Any, Any]

_EXAMPLES = 8
"""Of each operation before the next has its turn. The first of them are always small ones."""

_SETTINGS = hypothesis.settings(
    max_examples=_EXAMPLES,
    database=None,
    deadline=None,
    phases=[hypothesis.Phase.generate],
    suppress_health_check=list(hypothesis.HealthCheck),
)
_MODES = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
_TIMES = ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime")


def run(session: Session, line: Line, dice: Random) -> None:
    session.rediscover(line)
    todo = [(operation, mode) for operation in _operations(line) for mode in _MODES]
    while session.goes_on():
        dice.shuffle(todo)
        for operation, mode in todo:
            if not session.goes_on():
                return
            _try(session, line, operation, mode, dice.getrandbits(64))


def _operations(line: Line) -> Iterator[Operation]:
    config = schemathesis.Config()
    # Any character, also halves of those that take two in UTF-16.
    config.projects.default.generation.codec = None
    index = json.loads(line.ask(Request("GET", "/openapi/v3")).body)
    for location in index["paths"]:
        answer = line.ask(Request("GET", f"/openapi/v3/{location}"))
        document = _as_meant(answer.body)
        for found in schemathesis.openapi.from_dict(document, config=config).get_all_operations():
            if isinstance(found, Ok):
                yield found.ok()


def _as_meant(body: bytes) -> dict[str, Any]:
    """A document of Kubernetes, which says some things otherwise than JSON Schema understands them."""
    # A duration is `1h` to the one and `PT1H` to the other.
    document: dict[str, Any] = json.loads(body.replace(b'"format":"duration"', b'"format":"go-duration"'))
    for name in _TIMES:
        # A time that is not set is null in some kinds, though no document says so.
        document["components"]["schemas"].get(name, {})["nullable"] = True
    return document


def _try(
    session: Session,
    line: Line,
    operation: Operation,
    mode: schemathesis.GenerationMode,
    seed: int,
) -> None:
    @hypothesis.seed(seed)
    @_SETTINGS
    @hypothesis.given(operation.as_strategy(generation_mode=mode), strategies.integers(0, 2**32))
    def send(case: aims.Case, choices: int) -> None:
        for request in aims.requests(case, session.surface, values.generator(choices)):
            if not session.goes_on():
                return
            answer = session.ask(line, request)
            if answer is not None and answer.code < 300 and _is_of_one_shape(request):
                for fault in _faults(operation, answer):
                    session.find(fault, request.curl, answer)

    send()


def _is_of_one_shape(request: Request) -> bool:
    """Not a deletion, which answers this or that, and no object that may be older than the schema of its kind."""
    is_redefined = f"/{objects.definitions()[-1]['spec']['group']}/" in request.path
    return request.method != "DELETE" and not request.may_stream and not is_redefined


def _faults(operation: Operation, answer: Answer) -> Iterator[str]:
    headers = {key: [value] for key, value in answer.headers.items()}
    # The request is shown in what we say of a fault, so schemathesis need not know it.
    response = schemathesis.Response(answer.code, headers, answer.body, cast("Any", None), 0.0, verify=True)
    try:
        operation.validate_response(response)
    except (Failure, FailureGroup) as error:
        failures = error.exceptions if isinstance(error, FailureGroup) else (error,)
        for failure in failures:
            if not _is_usual(failure):
                yield f"{failure.title}: {' '.join(failure.message.split())[:300]}"


def _is_usual(failure: BaseException) -> bool:
    """Does Kubernetes answer so too, whatever its documents say?"""
    if not isinstance(failure, JsonSchemaError):
        return False
    # What was not said, and nobody insists on, Kubernetes shows as null or as empty.
    return failure.instance is None or "is a required property" in failure.message
