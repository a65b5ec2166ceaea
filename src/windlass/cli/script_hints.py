"""What a training script says about how it wants to be run. Bytes in, values out: the script is read and never run.

Imports name the library; the variables that it reads, its options and the strategies that it uses tell how its
processes are to find one another. A script that is no Python 3 is searched for the same words.
"""

import ast
import re
import warnings
from collections.abc import Iterator, Mapping

import msgspec

from windlass.model.feature_annotations import Runtime

MOST_BYTES = 4 * 1024 * 1024

_LIBRARIES: Mapping[str, Runtime] = {
    "horovod": Runtime.MPI,
    "mpi4py": Runtime.MPI,
    "tensorflow": Runtime.TENSORFLOW,
    "torch": Runtime.PYTORCH,
    "accelerate": Runtime.PYTORCH,
    "deepspeed": Runtime.PYTORCH,
    "lightning": Runtime.PYTORCH,
    "pytorch_lightning": Runtime.PYTORCH,
    "jax": Runtime.JAX,
    "flax": Runtime.JAX,
}
"""In the order in which they count: what brings its own way of starting processes comes first."""
_VARIABLES: Mapping[str, Runtime | None] = {
    "TF_CONFIG": Runtime.TENSORFLOW,
    "CLUSTER_CONFIG": Runtime.TENSORFLOW,
    "PS_HOSTS": Runtime.TENSORFLOW,
    "WORKER_HOSTS": Runtime.TENSORFLOW,
    "MASTER_ADDR": Runtime.PYTORCH,
    "RANK": Runtime.PYTORCH,
    "WORLD_SIZE": Runtime.PYTORCH,
    "JAX_COORDINATOR_ADDRESS": Runtime.JAX,
    "OMPI_COMM_WORLD_RANK": Runtime.MPI,
}
_NAMES: Mapping[str, Runtime] = {
    "ParameterServerStrategy": Runtime.TENSORFLOW,
    "ClusterCoordinator": Runtime.TENSORFLOW,
    "MultiWorkerMirroredStrategy": Runtime.TENSORFLOW,
    "CollectiveAllReduceStrategy": Runtime.TENSORFLOW,
    "TFConfigClusterResolver": Runtime.TENSORFLOW,
    "ClusterSpec": Runtime.TENSORFLOW,
    "DistributedDataParallel": Runtime.PYTORCH,
    "FullyShardedDataParallel": Runtime.PYTORCH,
    "init_process_group": Runtime.PYTORCH,
}
_OPTIONS: Mapping[str, str] = {
    "ps_hosts": "PS_HOSTS",
    "worker_hosts": "WORKER_HOSTS",
    "job_name": "JOB_NAME",
    "task_index": "TASK_INDEX",
}
"""What scripts of the first distributed TensorFlow are given, and the variables that hold it."""
_LISTS = frozenset({"ps_hosts", "worker_hosts"})
_SERVERS = frozenset({"ParameterServerStrategy", "ClusterCoordinator", "PS_HOSTS", "ps"})
_COORDINATORS = frozenset({"ClusterCoordinator"})
_DEFINES_AN_OPTION = re.compile(r"add_argument|option|DEFINE_\w+")
_IMPORTED = re.compile(r"^[ \t]*(?:import|from)[ \t]+(\w+)", re.MULTILINE)
_WORD = re.compile(r"\w+")


class Hints(msgspec.Struct, frozen=True):
    runtime: Runtime | None = None
    """None: nothing points to one."""
    is_distributed: bool = False
    """It does something about other processes. One that does not would do the same in every task."""
    wants_servers: bool = False
    """Parameter servers hold its variables."""
    wants_a_chief: bool = False
    """One task drives the others."""
    arguments: tuple[str, ...] = ()
    """Options that tell it who its peers are, with the variables that hold it."""
    seen: tuple[str, ...] = ()
    """What these conclusions are from, in words."""
    trouble: str = ""
    """Why it could not be read as Python; empty if it could."""


class _Sight(msgspec.Struct, frozen=True):
    """Something of the script that says how it wants to be run."""

    word: str
    phrase: str
    runtime: Runtime | None = None
    is_distributed: bool = True


def of(source: bytes) -> Hints:
    """Never raises: of what cannot be read there are few hints, or none."""
    if len(source) > MOST_BYTES:
        return Hints(trouble=f"it is larger than {MOST_BYTES // 2**20} MiB")
    try:
        return _concluded(tuple(_sights(_parsed(source))))
    except SyntaxError as error:
        trouble = f"it is not Python 3 (line {error.lineno or 1}: {error.msg})"
    except ValueError:
        trouble = "it is not text"
    except (RecursionError, MemoryError):
        trouble = "it is nested too deeply"
    hints = _concluded(tuple(_sights_of_words(source.decode("utf-8", errors="replace"))))
    return msgspec.structs.replace(hints, trouble=trouble)


def _parsed(source: bytes) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the script, to somebody who asked for nothing of the kind
        return ast.parse(source)


def _sights(module: ast.Module) -> Iterator[_Sight]:
    for node in ast.walk(module):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield from _of_import(alias.name)
            case ast.ImportFrom(module=str(name), names=names, level=0):
                yield from _of_import(name)
                for alias in names:
                    yield from _of_name(alias.name)
            case ast.Attribute(attr=name) | ast.Name(id=name):
                yield from _of_name(name)
            case ast.Call():
                yield from _of_call(node)
            case ast.Constant(value=str(text)) if text in _VARIABLES:
                yield _Sight(text, f"reads {text}", _VARIABLES[text])
            case ast.Compare(comparators=[ast.Constant(value="ps")]):
                yield _Sight("ps", "asks whether it is a ps", Runtime.TENSORFLOW)


def _of_import(module: str) -> Iterator[_Sight]:
    name = module.partition(".")[0]
    if name in _LIBRARIES:
        is_distributed = _LIBRARIES[name] is Runtime.MPI or module.startswith("torch.distributed")
        yield _Sight(name, f"imports {name}", _LIBRARIES[name], is_distributed)


def _of_name(name: str) -> Iterator[_Sight]:
    if name in _NAMES:
        yield _Sight(name, f"uses {name}", _NAMES[name])


def _of_call(call: ast.Call) -> Iterator[_Sight]:
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if called == "initialize" and "jax" in ast.unparse(call.func):
        yield _Sight(called, "calls jax.distributed.initialize", Runtime.JAX)
    if not _DEFINES_AN_OPTION.fullmatch(called):
        return
    for argument in call.args:
        match argument:
            case ast.Constant(value=str(text)) if text.lstrip("-").replace("-", "_") in _OPTIONS:
                option = text if text.startswith("--") else f"--{text}"
                yield _Sight(option, f"takes {option}")


def _sights_of_words(text: str) -> Iterator[_Sight]:
    for module in _IMPORTED.findall(text):
        yield from _of_import(module)
    for word in dict.fromkeys(_WORD.findall(text)):
        yield from _of_name(word)
        if word in _VARIABLES:
            yield _Sight(word, f"reads {word}", _VARIABLES[word])
        if word in _OPTIONS:
            yield _Sight(f"--{word}", f"takes --{word}")


def _concluded(sights: tuple[_Sight, ...]) -> Hints:
    words = frozenset(sight.word for sight in sights)
    options = {word.lstrip("-").replace("-", "_"): word for word in sorted(words) if word.startswith("--")}
    takes_lists = not _LISTS.isdisjoint(options)
    if not takes_lists:
        # Many a script has a --job_name that has nothing to do with it.
        sights = tuple(sight for sight in sights if not sight.word.startswith("--"))
    runtime = Runtime.TENSORFLOW if takes_lists else _runtime(sights)
    fitting = [sight for sight in sights if sight.runtime in (runtime, None)]
    return Hints(
        runtime=runtime,
        is_distributed=any(sight.is_distributed for sight in fitting),
        wants_servers=runtime is Runtime.TENSORFLOW
        and (not _SERVERS.isdisjoint(words) or "ps_hosts" in options),
        wants_a_chief=runtime is Runtime.TENSORFLOW and not _COORDINATORS.isdisjoint(words),
        arguments=tuple(f"{options[name]}=$({_OPTIONS[name]})" for name in _OPTIONS if name in options)
        if takes_lists
        else (),
        seen=tuple(dict.fromkeys(sight.phrase for sight in fitting)),
    )


def _runtime(sights: tuple[_Sight, ...]) -> Runtime | None:
    """By the library that is imported; among several, by the one whose way of finding others is used."""
    imported = [
        runtime for name, runtime in _LIBRARIES.items() if any(sight.word == name for sight in sights)
    ]
    is_mpi = Runtime.MPI in imported
    used = [sight.runtime for sight in sights if sight.is_distributed and sight.runtime is not None]
    preferred = [runtime for runtime in imported if runtime in used]
    candidates = [Runtime.MPI] if is_mpi else [*preferred, *imported, *used]
    return candidates[0] if candidates else None
