"""The command line arguments of a training script: those for peer discovery, and those without which it fails."""

import ast
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from windlass.model.feature_annotations import Runtime

HOST_OPTIONS: Mapping[str, str] = {
    "ps_hosts": "$(PS_HOSTS)",
    "worker_hosts": "$(WORKER_HOSTS)",
    "job_name": "$(JOB_NAME)",
    "task_index": "$(TASK_INDEX)",
}
"""Options of TensorFlow 1 scripts, and their values."""
_RANK_OPTIONS: Mapping[str, str] = {
    **dict.fromkeys(("rank", "global_rank"), "$(RANK)"),
    "node_rank": "$(NODE_RANK)",
    "local_rank": "$(LOCAL_RANK)",
    "world_size": "$(WORLD_SIZE)",
    **dict.fromkeys(("nnodes", "num_nodes"), "$(WORLD_SIZE)"),
    **dict.fromkeys(("master_addr", "master_address"), "$(MASTER_ADDR)"),
    "master_port": "$(MASTER_PORT)",
    **dict.fromkeys(("dist_url", "init_method"), "env://"),
}
_PROCESS_OPTIONS: Mapping[str, str] = {
    "process_id": "$(JAX_PROCESS_ID)",
    "num_processes": "$(JAX_NUM_PROCESSES)",
    **dict.fromkeys(("coordinator", "coordinator_address"), "$(JAX_COORDINATOR_ADDRESS)"),
}
_FAMILIES: tuple[tuple[Runtime, Mapping[str, str], tuple[frozenset[str], ...]], ...] = (
    (Runtime.TENSORFLOW, HOST_OPTIONS, (frozenset({"ps_hosts", "worker_hosts"}),)),
    (
        Runtime.PYTORCH,
        _RANK_OPTIONS,
        (
            frozenset({"rank", "global_rank", "node_rank"}),
            frozenset(_RANK_OPTIONS) - {"rank", "global_rank", "node_rank", "local_rank"},
        ),
    ),
    (
        Runtime.JAX,
        _PROCESS_OPTIONS,
        (frozenset({"process_id"}), frozenset(_PROCESS_OPTIONS) - {"process_id"}),
    ),
)
"""Runtimes, their options, and sets of options. A script uses the options only if it has one of each set, since
`--rank` alone may mean something else."""
_OPTIONAL_NARGS = ("?", "*", -1)


class Filled(msgspec.Struct, frozen=True):
    runtime: Runtime
    arguments: tuple[str, ...]


class Required(msgspec.Struct, frozen=True):
    """An argument without which the script fails."""

    names: tuple[str, ...]
    """The spellings of an option; one name for a positional argument."""

    @property
    def is_option(self) -> bool:
        return self.names[0].startswith("-")

    @property
    def name(self) -> str:
        return next((name for name in self.names if name.startswith("--")), self.names[0])


def is_discovery_option(text: str) -> bool:
    """Return whether an option may be for peer discovery."""
    name = text.lstrip("-").replace("-", "_")
    return any(name in options for _, options, _ in _FAMILIES)


def filled(options: Mapping[str, str]) -> Filled | None:
    """Return the arguments for peer discovery. `options` are the spellings of the script's options by name."""
    for runtime, values, conditions in _FAMILIES:
        if all(not each.isdisjoint(options) for each in conditions):
            arguments = (f"{options[name]}={value}" for name, value in values.items() if name in options)
            return Filled(runtime, tuple(arguments))
    return None


def required(module: ast.Module) -> Iterator[Required]:
    """Yield the required arguments that a script defines with argparse, click or absl."""
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call)]
    functions = {_function(call) for call in calls}
    has_subcommands = "add_subparsers" in functions or "group" in functions
    parses = not functions.isdisjoint({"parse_args", "parse_known_args"})
    for call in calls:
        function = _function(call)
        if function == "mark_flag_as_required":
            yield from (Required((f"--{name}",)) for name in _texts(call)[:1])
            continue
        is_definition = (function == "add_argument" and parses) or (
            function in ("option", "argument") and ast.unparse(call.func).startswith("click.")
        )
        names = tuple(_texts(call))
        if not is_definition or not names or has_subcommands:
            continue
        keywords = {each.arg: each.value for each in call.keywords}
        if names[0].startswith("-") or function == "option":
            if _constant(keywords.get("required")) is True:
                yield Required(names)
        elif _is_required_positional(keywords):
            yield Required(names[:1])


def missing(arguments: Sequence[Required], words: Sequence[str]) -> tuple[Required, ...]:
    """Return the required arguments that the words after the script lack."""
    options = [word.partition("=")[0] for word in words if word.startswith("-")]
    values = [word for word in words if not word.startswith("-")]
    missing_options = [
        each
        for each in arguments
        if each.is_option and not any(name.startswith(word) for name in each.names for word in options)
    ]
    positionals = [each for each in arguments if not each.is_option]
    # Words without a hyphen may also be values of options.
    return (*missing_options, *positionals[len(values) :])


def _is_required_positional(keywords: Mapping[str | None, ast.expr]) -> bool:
    is_optional = _constant(keywords.get("nargs")) in _OPTIONAL_NARGS or "default" in keywords
    names_remainder = "REMAINDER" in ast.unparse(keywords["nargs"]) if "nargs" in keywords else False
    return not is_optional and not names_remainder and _constant(keywords.get("required")) is not False


def _function(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _texts(call: ast.Call) -> list[str]:
    return [
        each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]


def _constant(node: ast.expr | None) -> object:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _constant(node.operand)
        return -value if isinstance(value, int) else None
    return node.value if isinstance(node, ast.Constant) else None
