"""The page: files as they are written, from our own origin, under a policy that lets nothing else in.

The page itself asks the API like any other client: with key and secret set, it asks its reader for them.
"""

from __future__ import annotations

from hashlib import blake2b
from importlib.resources import files
from typing import NamedTuple

from conductor.coordinator.http.answer import Answer
from conductor.coordinator.http.request import Request
from conductor.coordinator.http.routing import Route
from conductor.coordinator.request_errors import not_found

#: Scripts, styles, pictures and requests of our own origin; no inline script or style, no frame around it.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
INDEX = "index.html"
#: Where the page can be entered. `View at` in the log of a worker leads to the last of these.
ENTRIES = (
    "/",
    "/queues",
    "/definitions",
    "/schedules",
    "/server",
    "/execution/{id}",
    "/workflowDef/{name}",
    "/taskDef/{name}",
)
_TYPES = {
    "html": b"text/html;charset=utf-8",
    "css": b"text/css;charset=utf-8",
    "js": b"text/javascript;charset=utf-8",
    "svg": b"image/svg+xml",
}


class _File(NamedTuple):
    body: bytes
    content_type: bytes
    etag: str


def _load() -> dict[str, _File]:
    found = {}
    for path in files("conductor.coordinator").joinpath("web_ui").iterdir():
        kind = _TYPES.get(path.name.rpartition(".")[2])
        if kind is not None:
            body = path.read_bytes()
            found[path.name] = _File(body, kind, f'"{blake2b(body, digest_size=12).hexdigest()}"')
    return found


#: Every file of the page, by its name. They are small, and read once.
FILES = _load()


async def entry(request: Request) -> Answer:
    """The page. Which view it shows is read from the address by its script."""
    return _answer(request, FILES[INDEX])


async def file(request: Request) -> Answer:
    """One file of the page."""
    found = FILES.get(request.params["file"])
    if found is None:
        raise not_found(f"the page has no file {request.params['file'][:100]!r}")
    return _answer(request, found)


def _answer(request: Request, found: _File) -> Answer:
    headers = (
        ("ETag", found.etag),
        # Asked for again each time, and answered with 304 while it is the same: an upgrade is seen at once.
        ("Cache-Control", "no-cache"),
        ("Content-Security-Policy", CONTENT_SECURITY_POLICY),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
    )
    known = request.header(b"if-none-match")
    if found.etag in (tag.strip().removeprefix("W/") for tag in known.split(",")):
        return Answer(304, headers=headers)
    return Answer(200, found.body, found.content_type, headers)


PAGE_ROUTES = [
    *(Route("GET", path, entry, public=True) for path in ENTRIES),
    Route("GET", "/page/{file}", file, public=True),
]
