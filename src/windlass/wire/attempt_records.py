"""Encode and decode records of attempts. A large detail is compressed."""

from typing import Any

import msgspec

from windlass.model import names
from windlass.model.base import Json, manifest
from windlass.model.framework import Framework
from windlass.model.history import API_VERSION, AttemptDetail, AttemptRecord
from windlass.wire import codec

COMPRESSION_THRESHOLD = 16 * 1024
"""JSON size in bytes from which the detail is compressed."""
_DROPPED_ANNOTATIONS = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
"""Annotations that repeat the spec."""
_WHAT = "AttemptRecord"

_encoder = msgspec.json.Encoder()
_record_decoder = msgspec.json.Decoder(AttemptRecord)
_detail_decoder = msgspec.json.Decoder(AttemptDetail)


def encode(record: AttemptRecord, threshold: int = COMPRESSION_THRESHOLD) -> Json:
    """Return the manifest of a record. Deterministic."""
    detail = msgspec.structs.replace(record.detail, framework=_trimmed(record.framework))
    plain = _encoder.encode(detail)
    spec = record.spec
    if len(plain) < threshold:
        spec, size = msgspec.structs.replace(spec, detail=detail), len(plain)
    else:
        compressed = codec.compress(plain)
        spec = msgspec.structs.replace(spec, detail=None, detail_compressed=compressed)
        size = len(compressed)
    size += sum(len(each.text) for each in spec.container_logs)
    metadata = record.metadata
    return manifest(
        API_VERSION,
        names.RECORD_KIND,
        {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "labels": metadata.labels,
            "annotations": {names.RECORD_BYTES_ANNOTATION: str(size)},
        },
        spec=spec,
    )


def decode(data: codec.Data) -> AttemptRecord:
    """Decode a record, and expand its detail. Raises DecodeError."""
    record: AttemptRecord = codec.decode(_record_decoder, data, _WHAT)
    detail = record.spec.detail
    if detail is None:
        packed = record.spec.detail_compressed
        plain = codec.expand(packed, _WHAT, "spec.detailCompressed")
        detail = codec.decode(_detail_decoder, plain, f"{_WHAT}'s compressed detail")
    status = detail.framework.status
    if status is not None:
        framework = detail.framework.with_status(codec.expand_status(status))
        detail = msgspec.structs.replace(detail, framework=framework)
    spec = msgspec.structs.replace(record.spec, detail=detail, detail_compressed="")
    return msgspec.structs.replace(record, spec=spec)


def _trimmed(framework: Framework) -> Framework:
    metadata = framework.metadata
    kept: dict[str, Any] = {
        key: value for key, value in metadata.annotations.items() if key not in _DROPPED_ANNOTATIONS
    }
    return msgspec.structs.replace(framework, metadata=msgspec.structs.replace(metadata, annotations=kept))
