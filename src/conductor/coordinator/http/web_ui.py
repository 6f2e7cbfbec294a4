"""The files of the web UI, served with a content security policy that allows nothing from other origins.

The web UI uses the API like any other client: if the coordinator requires a key and a secret, the web UI
asks the user for them.
"""

from __future__ import annotations

from hashlib import blake2b
from importlib.resources import files
from typing import NamedTuple

from conductor.coordinator.http.answer import Answer
from conductor.coordinator.http.request import ApiRequest, RequestHead
from conductor.coordinator.http.routing import Route
from conductor.coordinator.keys.roles import Access
from conductor.coordinator.request_errors import not_found

#: Allows only scripts, styles, images and requests of the same origin; no inline scripts or styles, no frames.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
INDEX = "index.html"
#: Paths that show the web UI; its script reads the view from the path. Workers log links to `/execution/{id}`.
ENTRY_PATHS = (
    "/",
    "/workflows",
    "/failures",
    "/workers",
    "/inbox",
    "/queues",
    "/definitions",
    "/schedules",
    "/schedules/{name}",
    "/secrets",
    "/keys",
    "/audit",
    "/server",
    "/execution/{id}",
    "/workflowDef/{name}",
    "/taskDef/{name}",
)
#: Only programs request paths with these prefixes. If such a path is unknown, the answer is a JSON error, not the web
#: UI.
_PATHS_WITHOUT_PAGE = (b"/api/", b"/page/")
_TYPES = {
    "html": b"text/html;charset=utf-8",
    "css": b"text/css;charset=utf-8",
    "js": b"text/javascript;charset=utf-8",
    "svg": b"image/svg+xml",
}


class _WebFile(NamedTuple):
    body: bytes
    content_type: bytes
    etag: str


def _load() -> dict[str, _WebFile]:
    loaded = {}
    for path in files("conductor.coordinator").joinpath("web_ui").iterdir():
        kind = _TYPES.get(path.name.rpartition(".")[2])
        if kind is not None:
            body = path.read_bytes()
            loaded[path.name] = _WebFile(body, kind, f'"{blake2b(body, digest_size=12).hexdigest()}"')
    return loaded


#: Every file of the web UI, by its name.
FILES = _load()


async def get_index(request: ApiRequest) -> Answer:
    """GET /: return the document of the web UI."""
    return _send(request, FILES[INDEX])


async def get_file(request: ApiRequest) -> Answer:
    """GET /page/{file}: return a script, style or image of the web UI."""
    file = FILES.get(request.params["file"])
    if file is None:
        raise not_found(f"the web UI has no file {request.params['file'][:100]!r}")
    return _send(request, file)


def find_page_for_unknown_path(head: RequestHead) -> Answer | None:
    """Return the web UI with status 404 if a browser opens an unknown path; None for other clients."""
    is_page = head.method == "GET" and not head.path.startswith(_PATHS_WITHOUT_PAGE)
    if not is_page or b"text/html" not in head.headers.get(b"accept", b""):
        return None
    index = FILES[INDEX]
    return Answer(404, index.body, index.content_type, _make_headers(index))


def _send(request: ApiRequest, file: _WebFile) -> Answer:
    headers = _make_headers(file)
    known = request.header(b"if-none-match")
    if file.etag in (tag.strip().removeprefix("W/") for tag in known.split(",")):
        return Answer(304, headers=headers)
    return Answer(200, file.body, file.content_type, headers)


def _make_headers(file: _WebFile) -> tuple[tuple[str, str], ...]:
    return (
        ("ETag", file.etag),
        # Browsers revalidate each time and get a 304 while the file is unchanged, so an upgrade is visible at once.
        ("Cache-Control", "no-cache"),
        ("Content-Security-Policy", CONTENT_SECURITY_POLICY),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
    )


WEB_UI_ROUTES = [
    *(Route("GET", path, get_index, Access.PUBLIC) for path in ENTRY_PATHS),
    Route("GET", "/page/{file}", get_file, Access.PUBLIC),
]
