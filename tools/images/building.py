"""Keep images and their layers in a cache outside the checkout, and build those that are missing.

A file name contains a hash of everything that determines its content. making.py builds the layers.
"""

import dataclasses
import hashlib
import os
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import workshops  # of the parent folder
from images import archives, catalogue, checkout, making
from workshops import Workshop, WorkshopError

RECIPE: Final = 3
"""Part of every key. Raise it when the same catalogue is built in another way."""


def is_kept(name: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the image is in the cache."""
    return _cache(environment).path(named(name, catalogue.images(checkout.read()))).exists()


def ensure(name: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the archive of an image, after building it if it is missing."""
    image = named(name, catalogue.images(checkout.read()))
    cache = _cache(environment)
    kept = cache.path(image)
    if kept.exists():
        return kept
    with workshops.locked(cache.folder / "lock", "the images"):
        if not kept.exists():
            _build(cache, image)
    return kept


def named(name: str, images: Mapping[str, catalogue.Image]) -> catalogue.Image:
    if name not in images:
        raise WorkshopError(f"Unknown image {name}. Known images: {', '.join(images)}.")
    return images[name]


@dataclasses.dataclass(frozen=True)
class Cache:
    folder: Path
    architecture: str

    def path(self, what: catalogue.Image | catalogue.Layer) -> Path:
        return self.folder / f"{self._stem(what)}-{self._key(what)}.tar"

    def keep(self, file: Path, what: catalogue.Image | catalogue.Layer) -> Path:
        """Move a file into the cache and remove its predecessors."""
        kept = self.path(what)
        file.rename(kept)
        versions = re.compile(re.escape(self._stem(what)) + r"-[0-9a-f]{16}\.tar")
        for other in self.folder.iterdir():
            if other != kept and versions.fullmatch(other.name):
                other.unlink()
        return kept

    def _stem(self, what: catalogue.Image | catalogue.Layer) -> str:
        kind = "image" if isinstance(what, catalogue.Image) else "layer"
        without_version = what.name.partition(":")[0].replace("/", "-")
        return f"{kind}-{without_version}-{self.architecture}"

    def _key(self, what: catalogue.Image | catalogue.Layer) -> str:
        return hashlib.sha256(repr((RECIPE, self.architecture, what)).encode()).hexdigest()[:16]


def _cache(environment: Mapping[str, str]) -> Cache:
    return Cache(workshops.cache_root(environment) / "images", workshops.architecture(platform.machine()))


def _build(cache: Cache, image: catalogue.Image) -> None:
    for left_over in cache.folder.glob("work-*"):  # left by a killed builder: the lock is held
        shutil.rmtree(left_over, ignore_errors=True)
    log = cache.folder / "log"
    log.write_text("")
    with tempfile.TemporaryDirectory(prefix="work-", dir=cache.folder) as folder:
        shop = Workshop(Path(folder), log, time.monotonic())
        layers = [_layer(shop, cache, layer) for layer in image.layers]
        shop.say(f"writing the archive of {image.name}")
        archive = shop.folder / "archive.tar"
        archives.write(archive, image.tags, layers, image.config, cache.architecture)
        cache.keep(archive, image)


def _layer(shop: Workshop, cache: Cache, layer: catalogue.Layer) -> Path:
    kept = cache.path(layer)
    if kept.exists():
        return kept
    layer_file = shop.folder / f"{layer.name}.tar"
    if isinstance(layer, catalogue.DebianRoot):
        making.debian(shop, layer, layer_file)
    else:
        making.on_debian(shop, layer, _layer(shop, cache, catalogue.DEBIAN), layer_file)
    return cache.keep(layer_file, layer)
