"""Pictures of the main views, light and dark: `make test-browser` writes them, the documentation shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser

from tests.browser.sample_workflows import Samples
from tests.browser.watched_page import WatchedPage

IMAGES = Path(__file__).parents[2] / "docs" / "images"
PICTURES = {
    "overview": "/",
    "workflows": "/workflows",
    "execution": "/execution/{failed}",
    "inbox": "/inbox",
    "schedules": "/schedules",
    "queues": "/queues",
    "definition": "/workflowDef/order_flow?version=3",
    "start": "/workflowDef/order_flow?version=3",
}
#: A picture is for a page of documentation, not for a wall.
MAX_PICTURE_BYTES = 250_000


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_is_made(
    name: str, theme: Literal["light", "dark"], browser: Browser, pictured: Samples, tmp_path: Path
) -> None:
    pictured.served()
    with WatchedPage(browser, pictured.root, 1440, theme) as page:
        page.go(PICTURES[name].format(**pictured.ids))
        if name == "start":
            page.button("Start …").click()
            page.tab.get_by_role("dialog").get_by_label("item").fill("lamp")
        made = page.tab.screenshot(animations="disabled")
    assert made.startswith(b"\x89PNG")
    assert len(made) < MAX_PICTURE_BYTES
    IMAGES.mkdir(exist_ok=True)
    (IMAGES / f"page-{name}-{theme}.png").write_bytes(made)
