"""Write apt sources for a Debian release from the sources of this machine.

kubernetes_binaries.py runs apt and writes the files.
"""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path


class SourcesError(Exception):
    """This machine has no Debian package source. The message lists the files that were read."""


@dataclasses.dataclass(frozen=True)
class SourceFile:
    """A sources file of /etc/apt. Its suffix determines the format."""

    name: str
    text: str


def of_machine(etc: Path) -> tuple[SourceFile, ...]:
    lists = [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]
    return tuple(
        SourceFile(path.name, path.read_text())
        for path in lists
        if path.suffix in {".list", ".sources"} and path.is_file()
    )


def for_release(files: Sequence[SourceFile], release: str, new_release: str) -> tuple[SourceFile, ...]:
    """Return the same sources for another release, with source packages.

    Entries that are not Debian's own (other suites, no component called main) are dropped: they may lack that release.
    """
    rewritten = tuple(SourceFile(file.name, _rewritten(file, release, new_release)) for file in files)
    kept = tuple(file for file in rewritten if file.text)
    if not kept:
        raise SourcesError(
            f"this machine has no package source for Debian's suite {release} with the component main"
        )
    return kept


def _rewritten(file: SourceFile, release: str, new_release: str) -> str:
    if file.name.endswith(".sources"):
        stanzas = re.split(r"\n\s*\n", file.text)
        return "\n".join(_stanza_for(stanza, release, new_release) for stanza in stanzas).strip()
    return "".join(_line_for(line, release, new_release) for line in file.text.splitlines())


def _stanza_for(stanza: str, release: str, new_release: str) -> str:
    fields = _fields(stanza)
    suites = [_suite_for(suite, release, new_release) for suite in fields.get("suites", "").split()]
    is_debian = "deb" in fields.get("types", "").split() and "main" in fields.get("components", "").split()
    is_off = fields.get("enabled", "").strip().lower() in {"no", "false", "0"}
    if not is_debian or is_off or not any(suites):
        return ""
    fields |= {"types": "deb deb-src", "suites": " ".join(filter(None, suites)), "components": "main"}
    return "".join(f"{name}: {value.strip()}\n" for name, value in fields.items())


def _fields(stanza: str) -> dict[str, str]:
    """Return the fields of a stanza by lower-case name. A value may have several lines."""
    fields: dict[str, str] = {}
    last = ""
    for line in stanza.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace():
            fields[last] = fields.get(last, "") + "\n" + line
            continue
        name, _, value = line.partition(":")
        last = name.strip().lower()
        fields[last] = value
    return fields


def _line_for(line: str, release: str, new_release: str) -> str:
    found = re.fullmatch(r"\s*deb\s+(\[[^]]*\]\s+)?(\S+)\s+(\S+)\s+([^#]+)(#.*)?", line)
    if not found:
        return ""
    options, address, suite, components = (part or "" for part in found.groups()[:4])
    other = _suite_for(suite, release, new_release)
    if other is None or "main" not in components.split():
        return ""
    return "".join(f"{kind} {options}{address} {other} main\n" for kind in ("deb", "deb-src"))


def _suite_for(suite: str, release: str, new_release: str) -> str | None:
    name, dash, pocket = suite.partition("-")
    is_debians = name == release and pocket in {"", "updates", "security"}
    return f"{new_release}{dash}{pocket}" if is_debians else None


def apt_configuration(dump: str, folder: Path) -> str:
    """Return an apt configuration with the machine's settings for downloads, and new folders.

    Other settings are dropped, because a machine may run commands after an update.
    """
    fetching = [
        line
        for line in dump.splitlines()
        if line.startswith("Acquire::") and not line.startswith("Acquire::IndexTargets::")
    ]
    own = {
        "Dir::Etc::Main": "/dev/null",
        "Dir::Etc::Parts": folder / "no-parts",
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": folder / "sources",
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",  # its own user may not enter the folder
    }
    return "\n".join([*fetching, *(f'{name} "{value}";' for name, value in own.items())]) + "\n"
