"""The docstrings below fields and enumeration members, which Python does not keep at run time, from the source."""

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise


def of_fields(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Each field of the class that has one, and its docstring."""
    for statement, following in pairwise(node.body):
        match statement, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, inspect.cleandoc(text)
