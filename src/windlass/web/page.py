"""The files of the page, which `make ui` builds."""

from html import escape
from pathlib import Path

from aiohttp import web

STATIC = Path(__file__).parent / "static"
_CONTENT_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".ico": "image/x-icon",
    ".js": "text/javascript",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".woff2": "font/woff2",
}
NOT_BUILT = (
    "the page is not built: run `make ui` in the source folder of Windlass (needs Node.js), or install a wheel that "
    "contains it. The API works: see /api/v1/openapi.json."
)


def is_built() -> bool:
    return (STATIC / "index.html").is_file()


async def serve(request: web.Request, folder: Path = STATIC) -> web.StreamResponse:
    """Return a file of the page. Every other path is a view of the page itself."""
    path = request.path.lstrip("/")
    if path.startswith("api/"):
        raise web.HTTPNotFound
    file = (folder / path).resolve()
    is_file = bool(path) and file.is_relative_to(folder.resolve()) and file.is_file()
    if not is_file and path.startswith("assets/"):
        return text_page("not found", status=404)
    if not is_file:
        file = folder / "index.html"
        if not file.is_file():
            return text_page(f"{NOT_BUILT[0].upper()}{NOT_BUILT[1:]}", status=200 if not path else 404)
    # The names of assets contain a digest of their contents.
    caching = "public, max-age=31536000, immutable" if path.startswith("assets/") else "no-cache"
    content_type = _CONTENT_TYPES.get(file.suffix, "application/octet-stream")
    return web.FileResponse(file, headers={"Cache-Control": caching, "Content-Type": content_type})


def text_page(message: str, *, status: int) -> web.Response:
    body = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Windlass</title>'
        f"<h1>Windlass</h1><p>{escape(message)}</p></html>"
    )
    return web.Response(text=body, content_type="text/html", status=status)
