"""Events are deleted one hour after their last occurrence."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from windlass.localcluster.apiserver.lifecycle import format_time
from windlass.localcluster.apiserver.options import WriteOptions
from windlass.localcluster.controllers import event_ttl
from windlass.localcluster.server import ApiServer

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def test_expired_events_are_deleted(tmp_path: Path) -> None:
    server = ApiServer(tmp_path)
    events = server.registry.find("", "v1", "events")
    maps = server.registry.find("", "v1", "configmaps")
    assert events is not None
    assert maps is not None

    def tell(name: str, ago: timedelta, **fields: Any) -> None:
        server.lifecycle.clock = lambda: NOW - ago
        given = {
            "metadata": {"name": name},
            "involvedObject": {"namespace": "default", "kind": "Pod", "name": "p"},
            **fields,
        }
        server.lifecycle.create(events, "default", given, WriteOptions())

    tell("old", timedelta(hours=2))
    tell("new", timedelta(minutes=59))
    tell("repeated", timedelta(hours=2), lastTimestamp=format_time(NOW - timedelta(minutes=5)))
    server.lifecycle.clock = lambda: NOW - timedelta(hours=9)
    server.lifecycle.create(maps, "default", {"metadata": {"name": "no-event"}}, WriteOptions())
    server.lifecycle.clock = lambda: NOW
    event_ttl.delete_expired(server.lifecycle)

    assert [event["metadata"]["name"] for event in server.lifecycle.objects("", "events")] == [
        "new",
        "repeated",
    ]
    assert [*server.lifecycle.objects("", "configmaps")]
    server.store.close()
