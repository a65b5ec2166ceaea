"""The variables for peer discovery that a training script overwrites, so that its tasks would not find each other."""

import ast
from collections.abc import Iterator

import msgspec

VARIABLES = frozenset({"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "TF_CONFIG"})
_INPUTS = frozenset({"environ", "getenv", "args", "opt", "opts", "FLAGS", "cfg", "config"})
"""Words of a value that comes from the environment or the command line."""


class Overwritten(msgspec.Struct, frozen=True):
    name: str
    line: int


def overwritten(module: ast.Module) -> Iterator[Overwritten]:
    """Yield the variables that a script always sets to a value of its own.

    A script may set a variable only if it is missing, e.g. in an `if` that names the variable.
    """
    yield from _in_block(module, frozenset())


def _in_block(node: ast.AST, guarded: frozenset[str]) -> Iterator[Overwritten]:
    for child in ast.iter_child_nodes(node):
        inner = guarded
        match child:
            case ast.If(test=test) | ast.IfExp(test=test):
                inner = guarded | _words(test)
            case ast.ExceptHandler():
                inner = guarded | VARIABLES
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from _set(_environment_key(target), value, child, guarded)
            case ast.Call(func=ast.Attribute(attr="putenv"), args=[ast.Constant(value=str(name)), value]):
                yield from _set(name, value, child, guarded)
            case ast.Call(func=ast.Attribute(attr="update", value=updated)) if _is_environment(updated):
                for name, value in _pairs(child):
                    yield from _set(name, value, child, guarded)
        yield from _in_block(child, inner)


def _set(
    name: str, value: ast.expr, at: ast.Assign | ast.Call, guarded: frozenset[str]
) -> Iterator[Overwritten]:
    if name in VARIABLES and name not in guarded and _words(value).isdisjoint(_INPUTS):
        yield Overwritten(name, at.lineno)


def _pairs(call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    for argument in call.args:
        if isinstance(argument, ast.Dict):
            for key, value in zip(argument.keys, argument.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value
    for keyword in call.keywords:
        yield keyword.arg or "", keyword.value


def _environment_key(target: ast.expr) -> str:
    match target:
        case ast.Subscript(value=value, slice=ast.Constant(value=str(name))) if _is_environment(value):
            return name
    return ""


def _is_environment(node: ast.expr) -> bool:
    return getattr(node, "attr", getattr(node, "id", "")) == "environ"


def _words(node: ast.AST) -> frozenset[str]:
    """Return the names and texts in an expression."""
    found = set[str]()
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
                found.add(name)
    return frozenset(found)
