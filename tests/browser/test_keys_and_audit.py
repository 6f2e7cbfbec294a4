"""Keys and the audit trail in the web UI: a secret is shown once, and a key sees only what it may do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from conductor.coordinator import Coordinator
from tests.browser.sample_workflows import Samples
from tests.browser.watched_page import WatchedPage

MARKUP = "<img src=x onerror=alert(1)>"


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[Samples]:
    """A coordinator with the key root, and samples that use it."""
    with Coordinator(tmp_path / "c.db", auth_key="root", auth_secret="root-secret") as coordinator:
        token = Samples(coordinator.url).call("POST", "/token", {"keyId": "root", "keySecret": "root-secret"})["token"]
        samples = Samples(coordinator.url, token)
        samples.define()
        yield samples


def sign_in(page: WatchedPage, key: str, secret: str) -> None:
    dialog = page.tab.get_by_role("dialog")
    dialog.get_by_label("Key", exact=True).fill(key)
    dialog.get_by_label("Secret", exact=True).fill(secret)
    page.confirm("Sign in")
    page.tab.locator(".view").first.wait_for()


@pytest.mark.parametrize(("width", "theme"), [(390, "dark"), (1440, "light")])
def test_keys_are_created_rotated_and_revoked_and_audited_o09(
    browser: Browser, keyed: Samples, width: int, theme: str
) -> None:
    with WatchedPage(browser, keyed.root, width, theme) as page:  # type: ignore[arg-type]
        page.expected_statuses = {400, 401}
        page.go("/keys")
        sign_in(page, "root", "root-secret")
        page.button("Create a key …").click()
        dialog = page.tab.get_by_role("dialog")
        dialog.get_by_label("Name", exact=True).fill("ben")
        page.confirm("Create")
        expect(dialog.get_by_role("alert")).to_contain_text("Choose at least one role.")
        dialog.get_by_label("viewer", exact=True).check()
        assert page.faults() == []
        page.confirm("Create")
        shown = page.tab.locator("pre.secret").inner_text()
        secret = shown.rpartition("CONDUCTOR_AUTH_SECRET=")[2]
        assert len(secret) > 30
        assert page.faults() == []
        page.confirm("I have stored it")
        row = page.tab.locator("tbody tr", has_text="ben")
        expect(row).to_contain_text("viewer")
        assert secret not in page.tab.content()
        page.button("Rotate ben").click()
        page.confirm("Rotate")
        expect(page.tab.locator("pre.secret")).not_to_contain_text(secret)
        page.confirm("I have stored it")
        expect(row).to_contain_text("ends")
        assert page.overflow() == 0
        assert page.faults() == []

        workflow_id = str(keyed.call("POST", "/workflow/reminder", {}))
        keyed.call("DELETE", f"/workflow/{workflow_id}?reason={quote(MARKUP)}")
        page.go("/audit")
        expect(page.tab.locator("tbody tr").first).to_contain_text(MARKUP)
        expect(page.tab.locator("main img")).to_have_count(0)
        assert page.overflow() == 0
        assert page.faults() == []
        page.tab.get_by_label("Action", exact=True).fill("rotate key")
        page.button("Filter").click()
        expect(page.tab.locator("tbody tr")).to_have_count(1)
        expect(page.tab.locator("tbody tr")).to_contain_text("ben")
        page.go(f"/execution/{workflow_id}")
        expect(page.tab.locator(".audit tbody tr")).to_have_text([re.compile("terminate.*root"), re.compile("start")])
        expect(page.button("Restart")).to_be_visible()

        page.button("Sign out").click()
        sign_in(page, "ben", secret)
        expect(page.button("Restart")).to_have_count(0)
        expect(page.tab.locator(".audit")).to_have_count(0)
        for name in ("Secrets", "Keys", "Audit"):
            expect(page.tab.get_by_role("navigation", name="Views").get_by_role("link", name=name)).to_have_count(0)
        keyed.call("DELETE", "/keys/ben")
        page.go("/keys")
        sign_in(page, "root", "root-secret")
        expect(row).to_have_count(0)


@pytest.mark.parametrize(
    ("role", "sentence", "command"),
    [
        ("worker", "A key with the role worker polls and reports tasks.", "conductor-worker run MODULE"),
        ("starter", "A key with the role starter starts registered workflows", "conductor-worker workflow start NAME"),
    ],
)
def test_a_key_that_cannot_open_the_web_ui_is_told_what_it_is_for(
    browser: Browser, keyed: Samples, role: str, sentence: str, command: str
) -> None:
    created = keyed.call("POST", "/keys", {"name": "robot", "roles": [role]})
    workflow_id = str(keyed.call("POST", "/workflow/reminder", {}))
    with WatchedPage(browser, keyed.root, 390) as page:
        page.expected_statuses = {401}
        page.go("/")
        sign_in(page, "robot", created["secret"])
        for path in ("/", "/workflows", "/secrets", f"/execution/{workflow_id}"):
            page.go(path)
            expect(page.tab.locator(".view")).to_contain_text(f"The key robot has the role {role}.")
            expect(page.tab.locator(".view")).to_contain_text(sentence)
            expect(page.tab.locator(".command")).to_contain_text(command)
            expect(page.tab.get_by_role("navigation", name="Views").get_by_role("link")).to_have_count(0)
        assert page.faults() == []
        assert page.overflow() == 0
        page.button("Sign in with another key").click()
        sign_in(page, "root", "root-secret")
        expect(page.tab.locator("h1")).to_contain_text("reminder")


def test_a_viewer_sees_no_button_of_an_admin_and_is_told_which_role_a_view_needs(
    browser: Browser, keyed: Samples
) -> None:
    created = keyed.call("POST", "/keys", {"name": "viv", "roles": ["viewer"]})
    keyed.call("PUT", "/secrets/SMTP_PASSWORD", "not shown")
    with WatchedPage(browser, keyed.root, 1440) as page:
        page.expected_statuses = {401}
        page.go("/secrets")
        sign_in(page, "viv", created["secret"])
        expect(page.tab.locator("main")).to_contain_text("SMTP_PASSWORD")
        expect(page.tab.locator("main button")).to_have_count(0)
        for path, needed in (("/keys", "admin"), ("/audit", "operator or admin")):
            page.go(path)
            expect(page.tab.locator(".view")).to_contain_text(f"This view needs the role {needed}.")
        page.link("Go to the overview").click()
        expect(page.tab.locator("h1")).to_have_text("Overview")


def test_a_wrong_secret_keeps_the_key_that_was_typed(browser: Browser, keyed: Samples) -> None:
    with WatchedPage(browser, keyed.root, 390) as page:
        page.expected_statuses = {401}
        page.go("/audit")
        dialog = page.tab.get_by_role("dialog")
        dialog.get_by_label("Key", exact=True).fill("root")
        dialog.get_by_label("Secret", exact=True).fill("wrong")
        page.confirm("Sign in")
        expect(dialog.get_by_role("alert")).to_have_text("Unknown key or wrong secret.")
        expect(dialog.get_by_label("Key", exact=True)).to_have_value("root")
        dialog.get_by_label("Secret", exact=True).fill("root-secret")
        page.tab.keyboard.press("Enter")
        expect(page.tab.locator("h1")).to_have_text("Audit")


def test_a_terminated_workflow_says_who_terminated_it(browser: Browser, keyed: Samples) -> None:
    workflow_id = str(keyed.call("POST", "/workflow/reminder", {}))
    keyed.call("DELETE", f"/workflow/{workflow_id}?reason=called%20off")
    with WatchedPage(browser, keyed.root, 1440) as page:
        page.expected_statuses = {401}
        page.go(f"/execution/{workflow_id}")
        sign_in(page, "root", "root-secret")
        expect(page.tab.locator(".title .why")).to_contain_text("called off (by root, 127.0.0.1)")
