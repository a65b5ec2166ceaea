"""Infer from a training script how to run it. The script is parsed and never run.

Its imports show the library. The variables, options and strategies that it uses show how its processes find each other.
Modules next to the script that it imports are inspected too. A script that cannot be parsed as Python 3 is searched for
the same words, unless it is too large.
"""

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from windlass.cli import script_arguments, script_environment
from windlass.model.feature_annotations import Runtime

MAX_BYTES = 4 * 1024 * 1024

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
"""In order of precedence: libraries that use MPI come first."""
_VARIABLES: Mapping[str, Runtime | None] = {
    "TF_CONFIG": Runtime.TENSORFLOW,
    "CLUSTER_CONFIG": Runtime.TENSORFLOW,
    "PS_HOSTS": Runtime.TENSORFLOW,
    "WORKER_HOSTS": Runtime.TENSORFLOW,
    "MASTER_ADDR": Runtime.PYTORCH,
    "RANK": Runtime.PYTORCH,
    "WORLD_SIZE": Runtime.PYTORCH,
    "NODE_RANK": Runtime.PYTORCH,
    "LOCAL_RANK": Runtime.PYTORCH,
    "env://": Runtime.PYTORCH,
    **dict.fromkeys(("JAX_COORDINATOR_ADDRESS", "JAX_PROCESS_ID", "JAX_NUM_PROCESSES"), Runtime.JAX),
    **dict.fromkeys(("COORDINATOR_ADDRESS", "PROCESS_ID", "NUM_PROCESSES"), Runtime.JAX),
    **dict.fromkeys(("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK"), Runtime.MPI),
    **dict.fromkeys(("TASK_INDEX", "FC_TASK_INDEX", "JOB_COMPLETION_INDEX"), None),
}
_API_NAMES: Mapping[str, Runtime] = {
    "ParameterServerStrategy": Runtime.TENSORFLOW,
    "ClusterCoordinator": Runtime.TENSORFLOW,
    "MultiWorkerMirroredStrategy": Runtime.TENSORFLOW,
    "CollectiveAllReduceStrategy": Runtime.TENSORFLOW,
    "TFConfigClusterResolver": Runtime.TENSORFLOW,
    "ClusterSpec": Runtime.TENSORFLOW,
    "DistributedDataParallel": Runtime.PYTORCH,
    "FullyShardedDataParallel": Runtime.PYTORCH,
    "init_process_group": Runtime.PYTORCH,
    "init_distributed": Runtime.PYTORCH,
    "Accelerator": Runtime.PYTORCH,
    "TrainingArguments": Runtime.PYTORCH,
}
_PARAMETER_SERVER_WORDS = frozenset({"ParameterServerStrategy", "ClusterCoordinator", "PS_HOSTS", "ps"})
_DEFINES_AN_OPTION = re.compile(r"add_argument|option|DEFINE_\w+")
_MAX_MODULES = 50
"""Maximum number of modules next to the script that are inspected."""
_IMPORTED = re.compile(r"^[ \t]*(?:import|from)[ \t]+(\w+)", re.MULTILINE)
_WORD = re.compile(r"\w+")


class Hints(msgspec.Struct, frozen=True):
    runtime: Runtime | None = None
    """None if there is no indication of a runtime."""
    is_distributed: bool = False
    """Whether the script communicates with other processes. Otherwise every task would do the same work."""
    uses_servers: bool = False
    """Whether the script uses parameter servers."""
    has_chief: bool = False
    """Whether one task coordinates the others."""
    arguments: tuple[str, ...] = ()
    """Command line options for peer discovery, with references to environment variables as values."""
    required: tuple[script_arguments.Required, ...] = ()
    """Arguments without which the script fails."""
    overwritten: tuple[script_environment.Overwritten, ...] = ()
    """Variables of Windlass that the script overwrites."""
    evidence: tuple[str, ...] = ()
    """Phrases that describe what was found in the script."""
    problem: str = ""
    """Why the script could not be parsed, and what was done instead; empty if it was parsed."""


class _Finding(msgspec.Struct, frozen=True):
    """A part of the script that indicates how to run it."""

    word: str
    phrase: str
    runtime: Runtime | None = None
    is_distributed: bool = True


def inspect_script(source: bytes, folder: Path | None = None) -> Hints:
    """Return the hints of a script in `folder`; few or none if it cannot be parsed."""
    if len(source) > MAX_BYTES:
        return Hints(problem=f"it is larger than {MAX_BYTES // 2**20} MiB and was not inspected")
    try:
        module = _parsed(source)
        modules = (module, *(_local_modules(module, folder) if folder is not None else ()))
        hints = _conclude(tuple(finding for each in modules for finding in _findings(each)))
        return msgspec.structs.replace(
            hints,
            required=tuple(script_arguments.required(module)),
            overwritten=tuple(script_environment.overwritten(module)),
        )
    except SyntaxError as error:
        problem = f"it is not Python 3 (line {error.lineno or 1}: {error.msg})"
    except ValueError:
        problem = "it is not text"
    except (RecursionError, MemoryError):
        problem = "it is nested too deeply"
    hints = _conclude(tuple(_findings_in_text(source.decode("utf-8", errors="replace"))))
    return msgspec.structs.replace(hints, problem=f"{problem}; it was only searched for known words")


def _parsed(source: bytes) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # syntax warnings about the script are not relevant
        return ast.parse(source)


def _local_modules(module: ast.Module, folder: Path) -> Iterator[ast.Module]:
    """Yield the modules in `folder` that a module imports, directly or not. Those that cannot be parsed are skipped."""
    waiting, found = [module], set[Path]()
    while waiting:
        for file in _imported_files(waiting.pop(), folder):
            if file in found or len(found) == _MAX_MODULES:
                continue
            found.add(file)
            try:
                with file.open("rb") as stream:
                    parsed = _parsed(stream.read(MAX_BYTES))
            except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
                continue
            waiting.append(parsed)
            yield parsed


def _imported_files(module: ast.Module, folder: Path) -> Iterator[Path]:
    for node in ast.walk(module):
        match node:
            case ast.Import(names=names):
                dotted = [alias.name for alias in names]
            case ast.ImportFrom(module=name, names=names):
                base = f"{name}." if name else ""
                dotted = [name or "", *(f"{base}{alias.name}" for alias in names)]
            case _:
                continue
        for each in filter(None, dotted):
            path = folder.joinpath(*each.split("."))
            yield from (file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file())


def _findings(module: ast.Module) -> Iterator[_Finding]:
    for node in ast.walk(module):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield from _import_findings(alias.name)
            case ast.ImportFrom(module=str(name), names=names, level=0):
                yield from _import_findings(name)
                for alias in names:
                    yield from _name_findings(alias.name)
            case ast.Attribute(attr=name) | ast.Name(id=name):
                yield from _name_findings(name)
            case ast.Call():
                yield from _call_findings(node)
            case ast.Constant(value=str(text)) if text in _VARIABLES:
                verb = "uses" if "://" in text else "reads"
                yield _Finding(text, f"{verb} {text}", _VARIABLES[text])
            case ast.Compare(comparators=[ast.Constant(value="ps")]):
                yield _Finding("ps", "asks whether it is a ps", Runtime.TENSORFLOW)


def _import_findings(module: str) -> Iterator[_Finding]:
    name = module.partition(".")[0]
    if name in _LIBRARIES:
        is_distributed = _LIBRARIES[name] is Runtime.MPI or module.startswith("torch.distributed")
        yield _Finding(name, f"imports {name}", _LIBRARIES[name], is_distributed)


def _name_findings(name: str) -> Iterator[_Finding]:
    if name in _API_NAMES:
        yield _Finding(name, f"uses {name}", _API_NAMES[name])


def _call_findings(call: ast.Call) -> Iterator[_Finding]:
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if function == "initialize" and "jax" in ast.unparse(call.func):
        yield _Finding(function, "calls jax.distributed.initialize", Runtime.JAX)
    if function in ("Trainer", "Fabric") and any(keyword.arg == "num_nodes" for keyword in call.keywords):
        yield _Finding("num_nodes", f"uses {function} with num_nodes", Runtime.PYTORCH)
    if not _DEFINES_AN_OPTION.fullmatch(function):
        return
    for argument in call.args:
        match argument:
            case ast.Constant(value=str(text)) if script_arguments.is_discovery_option(text):
                option = text if text.startswith("--") else f"--{text}"
                yield _Finding(option, f"takes {option}")


def _findings_in_text(text: str) -> Iterator[_Finding]:
    for module in _IMPORTED.findall(text):
        yield from _import_findings(module)
    for word in dict.fromkeys(_WORD.findall(text)):
        yield from _name_findings(word)
        if word in _VARIABLES:
            yield _Finding(word, f"reads {word}", _VARIABLES[word])
        if word in script_arguments.HOST_OPTIONS:
            yield _Finding(f"--{word}", f"takes --{word}")


def _conclude(findings: tuple[_Finding, ...]) -> Hints:
    words = frozenset(finding.word for finding in findings)
    options = {word.lstrip("-").replace("-", "_"): word for word in sorted(words) if word.startswith("--")}
    filled = script_arguments.filled(options)
    if filled is None:
        # Many scripts have an unrelated option --job_name or --rank.
        findings = tuple(finding for finding in findings if not finding.word.startswith("--"))
    runtime = filled.runtime if filled is not None else _runtime(findings)
    relevant = [finding for finding in findings if finding.runtime in (runtime, None)]
    return Hints(
        runtime=runtime,
        is_distributed=any(finding.is_distributed for finding in relevant),
        uses_servers=runtime is Runtime.TENSORFLOW
        and (not _PARAMETER_SERVER_WORDS.isdisjoint(words) or "ps_hosts" in options),
        has_chief=runtime is Runtime.TENSORFLOW and "ClusterCoordinator" in words,
        arguments=filled.arguments if filled is not None else (),
        evidence=tuple(dict.fromkeys(finding.phrase for finding in relevant)),
    )


def _runtime(findings: tuple[_Finding, ...]) -> Runtime | None:
    """Return MPI if a library that uses MPI is imported. Otherwise return the runtime of an imported library,
    preferably one whose functions or variables for discovery are used. If no library is imported, these functions and
    variables decide."""
    words = {finding.word for finding in findings}
    imported = [runtime for name, runtime in _LIBRARIES.items() if name in words]
    if Runtime.MPI in imported:
        return Runtime.MPI
    used = [finding.runtime for finding in findings if finding.is_distributed and finding.runtime is not None]
    preferred = [runtime for runtime in imported if runtime in used]
    return next(iter((*preferred, *imported, *used)), None)
