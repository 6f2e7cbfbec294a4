"""Schedules and secrets are added, changed and removed in the web UI."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.sample_workflows import Samples
from tests.browser.watched_page import WatchedPage


class TestSchedules:
    def test_a_schedule_is_added_edited_run_paused_and_removed_u5_12(self, page: WatchedPage, samples: Samples) -> None:
        page.expected_statuses = {400, 404}
        name = f"made-{page.width}"
        page.go("/schedules")
        page.button("Add a schedule …").click()
        dialog = page.tab.get_by_role("dialog")
        dialog.get_by_label("Name", exact=True).fill(name)
        dialog.get_by_label("Workflow", exact=True).fill("reminder")
        dialog.get_by_label("Cron expression").fill("0 2 * * *")
        expect(dialog.get_by_role("status")).to_contain_text("has 5 fields, not 6")
        page.confirm("Add")
        expect(dialog.get_by_role("alert").last).to_contain_text("has 5 fields, not 6")
        dialog.get_by_label("Cron expression").fill("0 30 4 * * *")
        dialog.get_by_label("Time zone").fill("Asia/Tokyo")
        expect(dialog.get_by_role("status")).to_contain_text("Every day at 04:30, Asia/Tokyo")
        assert page.faults() == []
        dialog.get_by_label("Input, as JSON").fill('{"who": "Ada"}')
        page.confirm("Add")
        page.says(f"{name} is saved.")
        page.tab.locator("tbody th").get_by_role("link", name=name).click()
        expect(page.tab.locator("h1")).to_have_text(name)
        expect(page.tab.locator(".next li")).to_have_text([re.compile("04:30:00 Asia/Tokyo")] * 5)
        page.button(f"Edit {name}").click()
        dialog.get_by_label("Cron expression").fill("0 0 5 * * MON-FRI")
        page.confirm("Save")
        expect(page.tab.locator("main")).to_contain_text("Monday to Friday at 05:00")
        saved = samples.call("GET", f"/scheduler/schedules/{name}")
        assert saved["startWorkflowRequest"]["input"] == {"who": "Ada"}
        assert (saved["cronExpression"], saved["zoneId"]) == ("0 0 5 * * MON-FRI", "Asia/Tokyo")
        page.button(f"Pause {name}").click()
        dialog.get_by_label("Reason").fill("holidays")
        page.confirm("Pause")
        expect(page.tab.locator("main")).to_contain_text("holidays")
        page.button(f"Resume {name}").click()
        page.confirm("Resume")
        expect(page.tab.locator(".next li").first).to_be_visible()
        page.button(f"Run now {name}").click()
        page.confirm("Run now")
        expect(page.tab.locator("h1")).to_contain_text("reminder")
        assert samples.workflow(page.tab.url.rpartition("/")[2])["input"] == {"who": "Ada"}
        page.go(f"/schedules/{name}")
        page.button("Remove").click()
        page.confirm("Remove")
        page.says(f"{name} is removed.")
        expect(page.tab.locator("tbody th").get_by_role("link", name=name)).to_have_count(0)

    def test_a_schedule_of_an_unknown_workflow_is_marked_u1_12(self, page: WatchedPage) -> None:
        page.go("/schedules")
        row = page.tab.locator("tbody tr", has_text="weekly-report")
        expect(row.locator(".warning")).to_contain_text("there is no workflow 'report'")

    def test_an_existing_schedule_is_not_replaced_by_a_new_one(self, page: WatchedPage) -> None:
        page.go("/schedules")
        page.button("Add a schedule …").click()
        dialog = page.tab.get_by_role("dialog")
        dialog.get_by_label("Name", exact=True).fill("nightly-sync")
        dialog.get_by_label("Workflow", exact=True).fill("reminder")
        page.confirm("Add")
        expect(dialog.get_by_role("alert").last).to_contain_text("exists already")


def test_secrets_are_set_and_deleted_and_never_shown(page: WatchedPage, samples: Samples) -> None:
    page.expected_statuses = {400}
    name = f"KEY_{page.width}"
    page.go("/secrets")
    expect(page.tab.locator(".missing")).to_contain_text("BANK_KEY is not set, but pay_bank needs it.")
    page.button("Add a secret …").click()
    dialog = page.tab.get_by_role("dialog")
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_label("Value").fill("s3cret-value")
    assert page.faults() == []
    page.confirm("Save")
    page.says("The secret is saved.")
    row = page.tab.locator("tbody tr", has_text=name)
    expect(row).to_contain_text("API")
    assert "s3cret-value" not in page.tab.content()
    page.button("Add a secret …").click()
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_label("Value").fill("another")
    page.confirm("Save")
    expect(dialog.get_by_role("alert")).to_contain_text("exists already")
    page.confirm("Cancel")
    page.button(f"Delete {name}").click()
    page.confirm("Delete")
    page.says(f"{name} is deleted.")
    expect(row).to_have_count(0)
    assert name not in samples.call("GET", "/secrets")
    page.button("Add a secret …").click()
    dialog.get_by_label("Name").fill("not a name")
    dialog.get_by_label("Value").fill("x")
    page.confirm("Save")
    expect(dialog.get_by_role("alert")).to_contain_text("letters, digits")
