"""Usage of tasks from the metrics API."""

import json

import msgspec
import pytest

from windlass.client import usage
from windlass.client.usage import Usage


def test_usage_of_containers_is_added() -> None:
    containers = [
        {"name": "a", "usage": {"cpu": "250m", "memory": "1Mi"}},
        {"name": "b", "usage": {"cpu": "1500000n", "memory": "512Ki"}},
    ]
    body = {"items": [{"metadata": {"name": "p", "namespace": "n"}, "containers": containers}]}
    assert usage.decode(json.dumps(body).encode()) == {("n", "p"): Usage(0.2515, 1024 * 1024 + 512 * 1024)}


def test_gpu_usage_is_added_where_it_is_known() -> None:
    containers = [
        {"name": "a", "usage": {"cpu": "1", "memory": "1Ki"}},
        {"name": "b", "usage": {"windlass.dev/gpus": "870m", "windlass.dev/gpu-memory": "3Ki"}},
        {"name": "c", "usage": {"windlass.dev/gpu-memory": "1Ki"}},
    ]
    body = {"items": [{"metadata": {"name": "p", "namespace": "n"}, "containers": containers}]}
    assert usage.decode(json.dumps(body).encode()) == {("n", "p"): Usage(1.0, 1024, 0.87, 4096)}


def test_invalid_metrics_are_rejected() -> None:
    with pytest.raises(msgspec.DecodeError):
        usage.decode(b"<html>")
