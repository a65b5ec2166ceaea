"""Writes the parts of the documentation that the code knows better than people.

python tools/update_docs.py             writes them
python tools/update_docs.py --verify    fails if one is not what the code says today
"""

import argparse
import ast
import inspect
import sys
from pathlib import Path

import docstrings  # beside this file
from windlass.decide.transitions import TRANSITIONS, Origin
from windlass.model import completion, states
from windlass.model.completion import CompletionCode
from windlass.model.states import State

FOLDER = Path(__file__).parents[1] / "docs"
HEADER = "<!-- Made from the code by tools/update_docs.py. Do not edit. -->\n"
ARROWS = {Origin.PATH: "", Origin.SHORTCUT: " : shortcut", Origin.WINDLASS: " : beyond the reference"}


def documents() -> dict[Path, str]:
    return {FOLDER / "states.md": states_page(), FOLDER / "completion-codes.md": codes_page()}


def states_page() -> str:
    diagram = "\n".join(
        [
            f"    [*] --> {State.ATTEMPT_CREATION_PENDING}",
            *(f"    {start} --> {end}{ARROWS[origin]}" for (start, end), origin in TRANSITIONS.items()),
            f"    {State.COMPLETED} --> [*]",
        ]
    )
    meanings = dict(docstrings.of_fields(_class(State)))
    sections = "\n".join(
        f"## {state}\n\n{_without_next(meanings[state.name])}\n\nMay be followed by: {_followers(state)}.\n"
        for state in State
    )
    return (
        f"{HEADER}# States\n\n{inspect.cleandoc(states.__doc__ or '')}\n\n"
        f"```mermaid\nstateDiagram-v2\n{diagram}\n```\n\n{sections}"
    )


def _without_next(text: str) -> str:
    """The table says it for the reader of the page; the docstring, for the reader of the code."""
    return text.partition("Next: ")[0].strip()


def _followers(state: State) -> str:
    followers = [
        f"{end} ({origin.value})" if origin is not Origin.PATH else str(end)
        for (start, end), origin in TRANSITIONS.items()
        if start is state
    ]
    return ", ".join(followers) or "nothing"


def codes_page() -> str:
    rows = "\n".join(
        f"| {code.value} | {completion.phrase_of(code)} | {_type(code)} |"
        for code in sorted(CompletionCode, key=lambda code: -code.value)
    )
    return (
        f"{HEADER}# Completion codes\n\n{inspect.cleandoc(completion.__doc__ or '')}\n\n"
        f"| code | phrase | type |\n|---|---|---|\n{rows}\n"
    )


def _type(code: CompletionCode) -> str:
    kind = completion.TYPES[code]
    return " ".join((kind.name, *kind.attributes))


def _class(found: type) -> ast.ClassDef:
    (node,) = ast.parse(inspect.getsource(found)).body
    if not isinstance(node, ast.ClassDef):
        raise TypeError(f"{found} is not a class")
    return node


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--verify", action="store_true", help="change nothing, fail if something differs")
    arguments = parser.parse_args()
    stale = [path for path, text in documents().items() if not path.exists() or path.read_text() != text]
    if arguments.verify:
        for path in stale:
            print(f"{path} is not what the code says; run: make docs", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        path.write_text(documents()[path])
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
