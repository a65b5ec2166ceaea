"""Read the docstrings of fields and enumeration members from the source, because Python drops them at run time."""

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise


def of_fields(node: ast.ClassDef | ast.Module) -> Iterator[tuple[str, str]]:
    """Return each documented field of a class, or constant of a module, with its docstring."""
    for statement, following in pairwise(node.body):
        match statement, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, inspect.cleandoc(text)
