"""Property tests: a valid job renders to a valid Framework, and any file results in a job or in diagnostics."""

from typing import Any

import framework_files
import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.client.submit import plan as planner
from windlass.client.submit.plan import Target
from windlass.model.feature_annotations import Runtime
from windlass.model.framework import CompletionPolicySpec, Framework
from windlass.model.job import CephFs, Job, Nfs, NfsServer, Retry, Role, Volume
from windlass.model.resources import Resources
from windlass.render import code, documents
from windlass.render.framework import completion
from windlass.wire import semantic_validation

LABELS = st.from_regex(r"[a-z]([-a-z0-9]{0,10}[a-z0-9])?", fullmatch=True).filter(
    lambda name: not name.startswith("windlass-") and name != "nfs"  # the claim of the server is called so
)
ROLES = st.sampled_from(["ps", "worker", "chief", "master", "launcher", "evaluator", "tensorboard", "a1"])
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=20)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
PATHS = st.lists(LABELS, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))
QUANTITIES: Any = st.sampled_from([1, 0.5, "500m", "4", 2])
MEMORY: Any = st.sampled_from(["4Gi", "1.5G", 2**30, "1e9"])
DURATIONS: Any = st.sampled_from([1, 90, "90s", "1h30m", "7d", "500ms"])
COMMANDS = st.one_of(
    st.lists(TEXTS, min_size=1, max_size=4).map(tuple),
    st.sampled_from(["python train.py", "a && b", "echo $(PS_HOSTS) '$$'", "x > y; z", "a\nb"]),
)
FRACTIONS = st.floats(-1e6, 1e6).filter(lambda number: not number.is_integer())  # 1.0 is read as 1
VALUES = st.one_of(TEXTS, st.integers(-(2**40), 2**40), FRACTIONS, st.booleans())
RESOURCES = st.builds(
    Resources, cpus=st.none() | QUANTITIES, memory=st.none() | MEMORY, gpus=st.integers(0, 8)
)
SOURCES: Any = st.sampled_from(
    [
        {"host_path": "/srv"},
        {"host_path": "/srv", "nodes": ("n1", "n2")},
        {"share": "/data/x"},
        {"nfs": Nfs(server="s", path="/p")},
        {"pvc": "claim"},
        {"cephfs": CephFs(cluster_id="c", fs_name="f", secret="s")},  # noqa: S106 — a name
        {"empty_dir": {}},
        {"config_map": "c"},
        {"secret": "s"},
    ]
)
VOLUMES = st.builds(
    lambda source, fields: Volume(**source, **fields),
    SOURCES,
    st.fixed_dictionaries({"at": PATHS.map(lambda path: f"/mnt{path}"), "read_only": st.booleans()}),
)
PODS: Any = st.sampled_from([{}, {"spec": {"hostNetwork": True}}, {"metadata": {"annotations": {"a": "b"}}}])


def counts(tasks: int) -> st.SearchStrategy[CompletionPolicySpec | None]:
    limits = st.integers(-1, tasks)
    return st.none() | st.builds(CompletionPolicySpec, limits, limits)


@st.composite
def roles(draw: st.DrawFn) -> Role:
    tasks = draw(st.integers(0, 4))
    return Role(
        tasks=tasks,
        image=draw(st.sampled_from(["", "i:1"])),
        command=draw(st.none() | COMMANDS),
        env=draw(st.dictionaries(NAMES, VALUES, max_size=3)),
        resources=draw(st.none() | RESOURCES),
        port=draw(st.none() | st.integers(1, 65535)),
        retry=draw(st.none() | st.integers(0, 3)),
        completion=draw(counts(tasks)),
        pod=draw(PODS),
    )


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    volumes = draw(st.dictionaries(LABELS, VOLUMES, max_size=3))
    return Job(
        name=draw(LABELS),
        namespace=draw(st.just("") | LABELS),
        description=draw(TEXTS),
        runtime=draw(st.sampled_from(Runtime)),
        code=draw(st.sampled_from(["", "src"])),
        command=draw(COMMANDS),
        # A job needs at least one task.
        roles={**draw(st.dictionaries(ROLES, roles(), max_size=3)), "main": Role(tasks=1)},
        env=draw(st.dictionaries(NAMES, VALUES, max_size=3)),
        resources=draw(st.none() | RESOURCES),
        nfs_server=NfsServer(),
        volumes=dict({volume.at: (name, volume) for name, volume in volumes.items()}.values()),
        shm_size=draw(st.none() | MEMORY),
        port=draw(st.none() | st.integers(1, 65535)),
        barrier=draw(st.booleans()),
        retry=draw(st.builds(Retry, job=st.integers(0, 5), task=st.integers(0, 5))),
        ttl=draw(st.none() | DURATIONS),
        active_deadline=draw(st.none() | DURATIONS),
        labels=draw(st.dictionaries(LABELS, LABELS, max_size=2)),
        pod=draw(PODS),
    )


@settings(deadline=None, max_examples=60)
@given(jobs(), st.sampled_from([None, code.InPlace("/src"), code.Packed("x-code")]), st.booleans())
def test_valid_job_renders_to_valid_framework(job: Job, where: code.Code | None, has_mounts: bool) -> None:
    written = msgspec.json.encode(job)
    read = documents.read(written, "job.json")
    assert read.errors == ()
    (submission,) = read.submissions
    assert submission.job == job

    made = planner.render_framework(submission, Target("", has_own_mounts=has_mounts), where)
    loaded = framework_files.load(msgspec.json.encode(made), "framework.json")
    assert loaded.errors == ()
    (one,) = loaded.frameworks
    assert semantic_validation.semantic_error(one) == ""
    assert msgspec.convert(made, Framework) == one


@settings(deadline=None, max_examples=60)
@given(jobs())
def test_leaders_are_roles_that_end(job: Job) -> None:
    """Leaders are exactly the roles that the job waits for: endless roles are not leaders."""
    policies = completion.policies(job)
    for name, role in job.roles.items():
        if role.completion is None and policies[name].min_succeeded_task_count > 0:
            assert not completion.is_endless(job, name)
            assert policies[name].min_succeeded_task_count == role.tasks
    assert completion.leaders(job)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def broken(draw: st.DrawFn) -> Any:
    """Return a valid job file in which a value was replaced, renamed or removed."""
    written = msgspec.to_builtins(draw(jobs()))
    for _ in range(draw(st.integers(1, 3))):
        _break(draw, written)
    return written


def _break(draw: st.DrawFn, written: Any) -> None:
    place = written
    while place:
        keys = sorted(place, key=str) if isinstance(place, dict) else range(len(place))
        key = draw(st.sampled_from(list(keys)))
        inner = place[key]
        if isinstance(inner, dict | list) and inner and draw(st.booleans()):
            place = inner
            continue
        match draw(st.sampled_from(["replace", "remove", "rename"])):
            case "replace":
                place[key] = draw(JUNK)
            case "remove":
                del place[key]
            case "rename" if isinstance(place, dict):
                place[draw(st.text(max_size=8))] = place.pop(key)
        return


@settings(deadline=None, max_examples=60)
@given(broken())
def test_broken_job_file_results_in_diagnostics(written: Any) -> None:
    found = documents.read(msgspec.json.encode(written), "job.json")
    for diagnostic in found.diagnostics:
        assert "\n" not in str(diagnostic)
    for submission in found.submissions:
        planner.render_framework(submission)
        assert submission.name
