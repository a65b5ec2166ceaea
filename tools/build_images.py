"""Build container images from Debian's and Python's packages, without a registry, in a cache outside the checkout.

    python tools/build_images.py                    all images
    python tools/build_images.py windlass/test:1    only the named ones

Print the name and the archive of each image; progress goes to stderr. Load an archive with `ctr --namespace k8s.io
images import ARCHIVE` or `docker load --input ARCHIVE`. The first run takes minutes, later ones build only what has
changed. Only the standard library and pip are used.
"""

import argparse
import sys
from collections.abc import Sequence

import programs  # next to this file
from images import building, catalogue, checkout
from workshops import WorkshopError  # next to this file


def make(names: Sequence[str]) -> None:
    for name in names:
        print(name, building.ensure(name), flush=True)


def main() -> int:
    known = tuple(catalogue.images(checkout.read()))
    parser = argparse.ArgumentParser(
        description="Makes container images, and prints where their archives are."
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(known)}; none: all of them"
    )
    names = parser.parse_args().names or known
    return programs.exit_code(lambda: make(names), WorkshopError)


if __name__ == "__main__":
    sys.exit(main())
