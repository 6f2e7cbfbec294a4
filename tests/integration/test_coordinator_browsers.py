"""A page in a user's browser can start and change nothing on a coordinator at localhost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from conductor.coordinator import Coordinator

FLOW = {"name": "flow", "tasks": [{"name": "work", "taskReferenceName": "work"}]}
START = {"name": "flow", "workflowDef": FLOW}
FORMS = [
    "text/plain",
    "text/plain;charset=UTF-8",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
]
FOREIGN_ORIGINS = ["http://evil.example", "https://127.0.0.1.evil.example", "null", "http://localhost:1", "file://", ""]


@pytest.fixture(scope="module")
def coordinator() -> Iterator[Coordinator]:
    with Coordinator(allowed_hosts=["shop.internal"], allowed_origins=["https://desk.example/"]) as found:
        yield found


@pytest.fixture
def api(coordinator: Coordinator) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=coordinator.url) as client:
        yield client


def count(api: httpx.Client) -> int:
    """How many workflows there are."""
    return int(api.get("/workflow/search").json()["totalHits"])


def refused(answer: httpx.Response, status: int, *words: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.json()["status"] == status
    assert answer.json()["retryable"] is False
    for word in words:
        assert word in answer.json()["message"]
    assert not [name for name in answer.headers if name.startswith("access-control")]


class TestBodies:
    @pytest.mark.parametrize("content_type", [*FORMS, "application/jsonp", "text/json", ""])
    def test_a_body_that_is_not_called_json_is_415(self, api: httpx.Client, content_type: str) -> None:
        before = count(api)
        content = httpx.Request("POST", "http://x", json=START).content
        answer = api.post("/workflow", content=content, headers={"content-type": content_type})
        refused(answer, 415, "Content-Type: application/json")
        assert count(api) == before

    @pytest.mark.parametrize(
        "content_type", ["application/json", "Application/JSON; charset=utf-8", "application/x+json"]
    )
    def test_json_is_taken_however_it_is_written(self, api: httpx.Client, content_type: str) -> None:
        content = httpx.Request("POST", "http://x", json=START).content
        assert api.post("/workflow", content=content, headers={"content-type": content_type}).status_code == 200

    def test_a_program_may_leave_the_type_out_and_a_page_may_not(
        self, coordinator: Coordinator, api: httpx.Client
    ) -> None:
        content = httpx.Request("POST", "http://x", json=START).content
        assert api.post("/workflow", content=content).status_code == 200
        own = coordinator.url.removesuffix("/api")
        refused(api.post("/workflow", content=content, headers={"origin": own}), 415)
        assert api.post("/workflow", json=START, headers={"origin": own}).status_code == 200

    def test_no_body_needs_no_type(self, api: httpx.Client) -> None:
        workflow = api.post("/workflow", json=START).text
        form = {"content-type": "application/x-www-form-urlencoded"}
        assert api.put(f"/workflow/{workflow}/pause", headers=form).status_code == 200


class TestOrigins:
    @pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
    def test_a_page_of_another_origin_changes_nothing(self, api: httpx.Client, origin: str) -> None:
        workflow = api.post("/workflow", json=START).text
        before, foreign = count(api), {"origin": origin}
        refused(api.post("/workflow", json=START, headers=foreign), 403, "allowed_origins", "--allow-origin")
        refused(api.delete(f"/workflow/{workflow}", headers=foreign), 403)
        refused(api.put(f"/workflow/{workflow}/pause", headers=foreign), 403)
        assert count(api) == before
        assert api.get(f"/workflow/{workflow}").json()["status"] == "RUNNING"

    @pytest.mark.parametrize("headers", [{"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}])
    def test_a_page_of_another_origin_takes_no_task(self, api: httpx.Client, headers: dict[str, str]) -> None:
        api.post("/workflow", json=START)
        for method, path in [("GET", "work"), ("GET", "batch/work"), ("POST", "batch/work")]:
            refused(api.request(method, f"/tasks/poll/{path}", headers=headers), 403)
        assert api.get("/tasks/poll/work").status_code == 200

    def test_head_takes_no_task(self, api: httpx.Client) -> None:
        api.post("/workflow", json=START)
        waiting = api.get("/tasks/queue/size", params={"taskType": "work"}).json()
        for path in ("work", "batch/work"):
            assert api.head(f"/tasks/poll/{path}").status_code == 405
        assert api.get("/tasks/queue/size", params={"taskType": "work"}).json() == waiting
        assert api.head("/version").status_code == 200

    @pytest.mark.parametrize("site", ["cross-site", "same-site"])
    def test_sec_fetch_site_counts_without_an_origin(self, api: httpx.Client, site: str) -> None:
        refused(api.post("/workflow", json=START, headers={"sec-fetch-site": site}), 403, "another site")

    def test_pages_of_its_own_and_those_that_are_allowed_may(self, coordinator: Coordinator, api: httpx.Client) -> None:
        own = {"origin": coordinator.url.removesuffix("/api"), "sec-fetch-site": "same-origin"}
        listed = {"origin": "https://desk.example", "sec-fetch-site": "cross-site"}
        for headers in (own, listed, {"sec-fetch-site": "none"}):
            assert api.post("/workflow", json=START, headers=headers).status_code == 200
            assert api.get("/tasks/poll/work", headers=headers).status_code == 200

    def test_a_page_behind_a_proxy_with_its_name_is_its_own(self, api: httpx.Client) -> None:
        headers = {"host": "shop.internal", "origin": "https://shop.internal"}
        assert api.post("/workflow", json=START, headers=headers).status_code == 200
        headers["origin"] = "https://shop.internal:8443"
        refused(api.post("/workflow", json=START, headers=headers), 403)

    def test_reading_is_answered_without_leave_to_look_at_it(self, api: httpx.Client) -> None:
        answer = api.get("/version", headers={"origin": "http://evil.example", "sec-fetch-site": "cross-site"})
        assert answer.status_code == 200
        assert not [name for name in answer.headers if name.startswith("access-control")]


class TestHosts:
    @pytest.mark.parametrize(
        "host",
        [
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "notlocalhost",
            "128.0.0.1",
            "[::2]",
            "x" * 5000,
            "",
            "0.0.0.0",
        ],
    )
    def test_a_name_that_is_not_ours_is_not_answered(self, api: httpx.Client, host: str) -> None:
        """DNS rebinding: the page's own name leads to this machine, so its Origin is the same as its Host."""
        before, headers = count(api), {"host": host, "origin": f"http://{host}"}
        refused(api.post("/workflow", json=START, headers=headers), 403, "--allow-host", "allowed_hosts")
        refused(api.get("/workflow/search", headers=headers), 403)
        refused(api.get("/health", headers=headers), 403)
        assert count(api) == before

    @pytest.mark.parametrize(
        "host",
        [
            "localhost",
            "LOCALHOST:1",
            "localhost.",
            "app.localhost:80",
            "127.0.0.1",
            "127.8.8.8:9",
            "[::1]",
            "[::1]:80",
            "Shop.Internal",
        ],
    )
    def test_names_of_this_machine_and_those_of_the_list_are(self, api: httpx.Client, host: str) -> None:
        assert api.post("/workflow", json=START, headers={"host": host}).status_code == 200

    @pytest.mark.parametrize(
        ("options", "status"),
        [
            ({}, 200),
            ({"allowed_hosts": ["shop.internal"]}, 403),
            ({"allowed_hosts": ["any.example"]}, 200),
        ],
    )
    def test_beyond_loopback_the_list_decides(self, options: dict[str, Any], status: int) -> None:
        with Coordinator(host="0.0.0.0", allow_remote=True, **options) as found:
            url = f"http://127.0.0.1:{found.port}/api"
            assert httpx.get(f"{url}/version", headers={"host": "any.example"}).status_code == status
            foreign = {"host": "any.example", "origin": "http://evil.example"}
            assert httpx.post(f"{url}/workflow", json=START, headers=foreign).status_code == 403
            assert httpx.get(f"{url}/version").status_code == 200

    def test_a_star_is_any_host(self) -> None:
        with Coordinator(allowed_hosts=["*"]) as found:
            assert httpx.get(f"{found.url}/version", headers={"host": "any.example"}).status_code == 200

    @pytest.mark.parametrize(
        "options",
        [
            {"allowed_hosts": ["http://x"]},
            {"allowed_hosts": ["x:80"]},
            {"allowed_origins": ["x"]},
            {"allowed_origins": ["*"]},
        ],
    )
    def test_a_list_that_cannot_be_meant_is_refused(self, options: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="an allowed"):
            Coordinator(**options)
