"""How the answer to a list is read: page by page, the objects left as the bytes that they came in."""

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
        """Go writes a list with nothing in it as null."""
        return self.items or []


_decoder = msgspec.json.Decoder(Page)


def decode_page(body: bytes) -> Page:
    """Raises msgspec.DecodeError when this is no list."""
    try:
        return _decoder.decode(body)
    except RecursionError:
        # One object is deeper than can be read. The others are not to suffer from it.
        outline = _decoder.decode(json_depth.limit_depth(body, 2))
        return Page(outline.metadata, [msgspec.Raw(item) for item in json_depth.elements(body, "items")])
