"""Write the generated parts of the documentation.

python tools/update_docs.py             write them
python tools/update_docs.py --verify    fail if one is out of date
"""

import argparse
import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

import command_docs  # next to this file
import docstrings
import framework_docs
import job_docs
import state_diagram
from windlass.decide.transitions import TRANSITIONS, TransitionType
from windlass.jobfile import schema
from windlass.model import completion, states
from windlass.model.completion import CompletionCode
from windlass.model.settings import Settings
from windlass.model.states import State
from windlass.wire.settings import environment
from windlass.wire.settings import file as settings_file
from windlass.wire.settings.environment import Setting

FOLDER = Path(__file__).parents[1] / "docs"
PACKAGE = Path(__file__).parents[1] / "src" / "windlass"
HEADER = "<!-- Made from the code by tools/update_docs.py. Do not edit. -->\n"
DIAGRAM = "images/states.svg"


def documents() -> dict[Path, str]:
    return {
        FOLDER / "states.md": states_page(),
        FOLDER / DIAGRAM: state_diagram.picture(),
        FOLDER / "completion-codes.md": codes_page(),
        FOLDER / "configuration.md": configuration_page(),
        FOLDER / "commands.md": HEADER + command_docs.page(),
        FOLDER / "framework.md": HEADER + framework_docs.framework_page(),
        FOLDER / "annotations.md": HEADER + framework_docs.annotations_page(),
        FOLDER / "job-file.md": job_docs.page((FOLDER / "job-file.md").read_text()),
        FOLDER / schema.FILE: job_docs.schema(),
        PACKAGE / "jobfile" / schema.FILE: job_docs.schema(),
    }


def states_page() -> str:
    meanings = dict(docstrings.of_fields(_class(State)))
    sections = "\n".join(
        f"## {state}\n\n{_without_next(meanings[state.name])}\n\nMay be followed by: {_followers(state)}.\n"
        for state in State
    )
    return (
        f"{HEADER}# States\n\n{inspect.cleandoc(states.__doc__ or '')}\n\n"
        f"![The states and their transitions, which the sections list]({DIAGRAM})\n\n{sections}"
    )


def _without_next(text: str) -> str:
    """Remove the sentence about next states, which the page shows as a table."""
    return text.partition("Next: ")[0].strip()


def _followers(state: State) -> str:
    followers = [
        f"{end} ({transition.value})" if transition is not TransitionType.PATH else str(end)
        for (start, end), transition in TRANSITIONS.items()
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


SOURCES = f"""\
A value comes from a flag of `windlass controller`, from the environment, or from a YAML configuration file, in this
order of precedence. The file has the format of FrameworkController. Its path is given by `--config` or
`{environment.CONFIGURATION_FILE}`. Outside of the file, lists are separated by commas, and an empty variable counts as
unset. An unknown name is an error in the file and a warning in the environment. All errors of all sources are reported
at once, and the controller does not start.
"""


def configuration_page() -> str:
    by_key = {setting.key: setting for setting in environment.SETTINGS}
    sections = "\n".join(_setting(key, meaning, by_key.get(key)) for key, meaning in _meanings(Settings))
    rules = "\n".join(
        (
            *(f"* {order}." for order in settings_file.ORDERS),
            f"* {settings_file.RENEWAL_RULE}, because the retry interval is randomized by up to a fifth.",
            f"* {settings_file.REQUEST_RULE}, so that the lease outlasts a request that starts just before a renewal.",
        )
    )
    return f"{HEADER}# Configuration\n\n{SOURCES}\n{sections}\n## Constraints\n\n{rules}\n"


def _meanings(struct: type[msgspec.Struct], parents: str = "") -> Iterator[tuple[str, str]]:
    """Yield each setting with its documentation; a setting with nested ones is documented by them."""
    texts = dict(docstrings.of_fields(_class(struct)))
    for field in msgspec.structs.fields(struct):
        key = parents + field.encode_name
        if isinstance(field.default, msgspec.Struct):
            yield from _meanings(type(field.default), f"{key}.")
        else:
            yield key, " ".join(texts[field.name].split())


def _setting(key: str, meaning: str, setting: Setting | None) -> str:
    if setting is None:
        return f"## {key}\n\nOnly in the file.\n\n{meaning}\n"
    default = msgspec.json.encode(setting.default).decode()
    flags = " / ".join(f"`{flag}`" for flag in setting.flag_declaration.split("/"))
    return f"## {key}\n\n`{setting.variable}`, {flags}; default `{default}`\n\n{meaning}\n"


def _class(found: type) -> ast.ClassDef:
    (node,) = ast.parse(inspect.getsource(found)).body
    if not isinstance(node, ast.ClassDef):
        raise TypeError(f"{found} is not a class")
    return node


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--verify", action="store_true", help="write nothing; fail if a file is out of date")
    arguments = parser.parse_args()
    stale = [path for path, text in documents().items() if not path.exists() or path.read_text() != text]
    if arguments.verify:
        for path in stale:
            print(f"{path} is out of date; run: make docs", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        path.write_text(documents()[path])
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
