"""The templates that lie beside a config with imports. What is made of them is in `render.cluster_config`."""

from pathlib import Path

from windlass.client.errors import FaultyJobError
from windlass.render import documents
from windlass.wire.yaml import text


def beside(data: bytes, folder: Path) -> dict[str, str]:
    """Those files that exist of the ones that a file with `data` imports, by path. Raises FaultyJobError."""
    files = {path: folder / path for path in documents.template_paths(data)}
    return {path: _text(_inside(folder, file)) for path, file in files.items() if file.is_file()}


def _inside(folder: Path, file: Path) -> Path:
    """A link that leads elsewhere would show what is there to whoever reads what is rendered."""
    target = file.resolve()
    if not target.is_relative_to(folder.resolve()):
        raise FaultyJobError(
            f"{file}: it is a link to {target}, out of the folder of the config: put a copy of it there instead"
        )
    return file


def _text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            data = stream.read(text.MOST_BYTES + 1)
    except OSError as error:
        raise FaultyJobError(f"{file}: cannot be read: {error.strerror or error}") from error
    try:
        return text.decode(data)
    except text.ParseError as error:
        raise FaultyJobError(f"{file}:{error.diagnostic.line}:{error.diagnostic.column}: {error}") from error
