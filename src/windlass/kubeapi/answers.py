"""Decodes pages of lists, and leaves the objects as bytes."""

import msgspec

from windlass.wire import json_depth


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct, frozen=True):
    metadata: ListMeta
    items: list[msgspec.Raw] | None = None

    @property
    def objects(self) -> list[msgspec.Raw]:
        """Return the items; Go encodes an empty list as null."""
        return self.items or []


_decoder = msgspec.json.Decoder(Page)


def decode_page(body: bytes) -> Page:
    """Decode a page. Raise msgspec.DecodeError if it is not a list."""
    try:
        return _decoder.decode(body)
    except RecursionError:
        # One object is nested too deeply to decode. The others are decoded.
        outline = _decoder.decode(json_depth.limit_depth(body, 2))
        return Page(outline.metadata, [msgspec.Raw(item) for item in json_depth.elements(body, "items")])
