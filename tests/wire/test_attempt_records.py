"""Records of attempts: encoding, compression, and the task attempts that they contain."""

import random
import string

import builders
import msgspec
import pytest
from builders import NOW

from windlass.decide import initial_status
from windlass.model import names
from windlass.model.base import Json
from windlass.model.completion import SUCCEEDED
from windlass.model.history import AttemptDetail, AttemptRecord, AttemptRecordSpec, TaskRetry, record_metadata
from windlass.model.status import EndedTaskAttempt, RetryOutcome
from windlass.wire import attempt_records
from windlass.wire.codec import DecodeError
from windlass.wire.crd import manifests

KEPT = RetryOutcome(should_retry=True, reason="retry 1 of 3", is_counted=True)
OVER = RetryOutcome(should_retry=False, reason="all 3 retries are used")


def record(annotations: dict[str, str] | None = None) -> AttemptRecord:
    framework = builders.framework("digits", builders.role("worker", 2))
    metadata = msgspec.structs.replace(framework.metadata, annotations=annotations or {})
    framework = msgspec.structs.replace(framework, metadata=metadata)
    status = initial_status.framework_status(framework, NOW)
    first = status.attempt_status.roles[0].task_statuses[0].attempt_status
    earlier = EndedTaskAttempt(role="worker", index=1, attempt=first, retry=KEPT)
    removed = EndedTaskAttempt(role="worker", index=7, attempt=first)
    status = msgspec.structs.replace(status, earlier_task_attempts=(removed, earlier))
    framework = framework.with_status(status)
    return AttemptRecord(
        metadata=record_metadata(framework, 3),
        spec=AttemptRecordSpec(
            framework_name=framework.name,
            framework_uid=framework.uid,
            attempt=3,
            start_time=NOW,
            completion_time=NOW,
            code=0,
            phrase="Succeeded",
            type=SUCCEEDED,
            retry=OVER,
            detail=AttemptDetail(framework=framework, task_retries=(TaskRetry("worker", 1, OVER),)),
        ),
    )


def as_stored(manifest: Json) -> bytes:
    return msgspec.json.encode(manifest)


@pytest.mark.parametrize("threshold", [10**6, 0], ids=["plain", "compressed"])
def test_decoding_an_encoded_record_returns_it(threshold: int) -> None:
    made = record()
    manifest = attempt_records.encode(made, threshold)
    found = attempt_records.decode(as_stored(manifest))
    assert found.spec == made.spec
    assert (found.name, found.namespace) == (made.name, made.namespace)
    assert bool(manifest["spec"].detail_compressed) == (threshold == 0)


def test_large_details_are_compressed_and_small_ones_are_not() -> None:
    noise = "".join(random.Random(1).choices(string.ascii_letters, k=attempt_records.COMPRESSION_THRESHOLD))
    small, large = attempt_records.encode(record()), attempt_records.encode(record({"x": noise}))
    assert small["spec"].detail is not None
    assert large["spec"].detail is None
    assert attempt_records.decode(as_stored(large)).framework.metadata.annotations == {"x": noise}
    assert int(large["metadata"]["annotations"][names.RECORD_BYTES_ANNOTATION]) == len(
        large["spec"].detail_compressed
    )


def test_name_is_that_of_the_attempt_and_labels_select_the_job() -> None:
    metadata = attempt_records.encode(record())["metadata"]
    framework = builders.framework("digits")
    assert metadata["name"] == f"{framework.uid}-3"
    assert metadata["labels"] == {
        "FC_FRAMEWORK_NAME": "digits",
        "FC_FRAMEWORK_NAMESPACE": framework.namespace,
        "FC_FRAMEWORK_UID": framework.uid,
    }
    assert "ownerReferences" not in metadata


def test_last_applied_configuration_is_not_recorded() -> None:
    made = record({"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "a"})
    found = attempt_records.decode(as_stored(attempt_records.encode(made)))
    assert found.framework.metadata.annotations == {"team": "a"}


def test_task_attempts_are_grouped_by_task_and_end_with_the_last_one() -> None:
    found = [(each.role, each.index, each.retry) for each in record().task_attempts()]
    assert found == [("worker", 0, None), ("worker", 1, KEPT), ("worker", 1, OVER), ("worker", 7, None)]


def test_damaged_detail_is_reported_with_its_place() -> None:
    manifest = attempt_records.encode(record(), 0)
    spec = msgspec.to_builtins(manifest["spec"])
    with pytest.raises(DecodeError, match=r"spec\.detailCompressed"):
        attempt_records.decode(as_stored({**manifest, "spec": {**spec, "detailCompressed": "AAAA"}}))


def test_definition_of_records_is_optional_and_keeps_the_detail() -> None:
    plain = [each["metadata"]["name"] for each in manifests.definitions()]
    with_records = [each["metadata"]["name"] for each in manifests.definitions(has_records=True)]
    assert with_records == [*plain, "attemptrecords.windlass.dev"]
    (version,) = manifests.record_crd()["spec"]["versions"]
    detail = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["detail"]
    assert detail[manifests.KEEP_UNKNOWN] is True
