"""Software bills of materials (CycloneDX) of the images, from the locks: packages, hashes and licences.

python tools/sbom.py FOLDER     write one file per image
"""

import argparse
import json
import re
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from images.checkout import HUB_LOCK, IMAGE_LOCK, ROOT  # next to this file
from windlass import __version__

Json = dict[str, Any]

_ENTRY: Final = re.compile(
    r"^(?P<name>[a-z0-9-]+)==(?P<version>\S+)(?P<hashes>(?: \\\n    --hash=\S+)+)$", re.MULTILINE
)
_ROW: Final = re.compile(r"^\| (?P<name>\S+) \| (?P<licence>[^|]+) \|", re.MULTILINE)
_SPDX: Final = re.compile(r"[A-Za-z0-9.+-]+(?: (?:AND|OR|WITH) [A-Za-z0-9.+-]+)*")


def boms() -> dict[str, Json]:
    """Return the bill of materials of each image by its name."""
    page = list(_npm_components(json.loads((ROOT / "ui" / "package-lock.json").read_text())))
    return {
        "windlass": _bom("windlass", [*_python_components(IMAGE_LOCK), *page]),
        "windlass-hub": _bom("windlass-hub", list(_python_components(HUB_LOCK))),
    }


def _bom(image: str, components: list[Json]) -> Json:
    # The same content gets the same number.
    content = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([image, __version__, components]))
    subject = {"type": "container", "bom-ref": image, "name": image, "version": __version__}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{content}",
        "version": 1,
        "metadata": {"component": {**subject, "licenses": [{"license": {"id": "Apache-2.0"}}]}},
        "components": components,
        "dependencies": [
            {"ref": image, "dependsOn": [each["bom-ref"] for each in components]},
            *({"ref": each["bom-ref"]} for each in components),
        ],
    }


def _python_components(lock: str) -> Iterator[Json]:
    listed = (ROOT / "docs" / "dependencies.md").read_text()
    licences = {row["name"]: row["licence"].strip() for row in _ROW.finditer(listed)}
    for entry in _ENTRY.finditer((ROOT / lock).read_text()):
        # One for each Python version and machine.
        hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", entry["hashes"])
        component = _component("pypi", entry["name"], entry["version"], licences[entry["name"]])
        yield {**component, "hashes": [{"alg": "SHA-256", "content": each} for each in hashes]}


def _npm_components(lock: Json) -> Iterator[Json]:
    """Return the packages that are part of the page of the dashboard."""
    for path, package in lock["packages"].items():
        if path and not package.get("dev"):
            yield _component(
                "npm", path.rpartition("node_modules/")[2], package["version"], package["license"]
            )


def _component(kind: str, name: str, version: str, licence: str) -> Json:
    purl = f"pkg:{kind}/{name.replace('@', '%40')}@{version}"
    is_expression = _SPDX.fullmatch(licence) is not None and re.search(r"\d| (AND|OR) |^(MIT|ISC)$", licence)
    found: Json = {"expression": licence} if is_expression else {"license": {"name": licence}}
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "licenses": [found],
    }


def write(folder: Path) -> list[Path]:
    files = []
    for image, bom in boms().items():
        file = folder / f"{image}-{__version__}.cdx.json"
        file.write_text(json.dumps(bom, indent=1) + "\n")
        files.append(file)
    return files


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    for file in write(parser.parse_args().folder):
        print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
