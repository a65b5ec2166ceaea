"""What a real API server answered to each of many objects; the file beside this was recorded from Kubernetes 1.20.

Objects whose answers differ between releases are not in it: the tests of their kinds say what is expected.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from windlass.localcluster.failures import ApiError

_LINES = Path(__file__).with_name("kubernetes_answers.jsonl").read_text().splitlines()
_CASES = [json.loads(line) for line in _LINES]


def _having(key: str) -> list[Any]:
    return [pytest.param(case["given"], case[key], id=case["case"]) for case in _CASES if key in case]


@pytest.mark.parametrize(("given", "answer"), _having("answer"))
def test_an_object_gets_what_kubernetes_fills_in(cluster: Any, given: Any, answer: Any) -> None:
    created = cluster.create(given)
    for key in ("uid", "creationTimestamp", "namespace"):
        created["metadata"].pop(key, None)
    assert {key: created[key] for key in created if key not in ("apiVersion", "kind")} == answer


@pytest.mark.parametrize(("given", "faults"), _having("faults"))
def test_a_wrong_object_is_refused_in_the_words_of_kubernetes(cluster: Any, given: Any, faults: Any) -> None:
    assert cluster.faults_of(given) == faults


@pytest.mark.parametrize(("given", "message"), _having("refused"))
def test_an_object_that_is_not_admitted(cluster: Any, given: Any, message: str) -> None:
    with pytest.raises(ApiError) as raised:
        cluster.create(given)
    assert raised.value.message == message
