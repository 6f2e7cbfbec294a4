"""The inbox, and forms made of JSON schemas, also of hostile ones."""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import expect

from tests.browser.sample_workflows import Samples
from tests.browser.watched_page import WatchedPage

#: A recursive schema without an end, and one that is much too large.
ENDLESS: dict[str, Any] = {
    "type": "object",
    "required": ["next"],
    "properties": {
        "next": {"$ref": "#"},
        "loop": {"$ref": "#/$defs/a"},
        "both": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
    },
    "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
}
HUGE: dict[str, Any] = {
    "type": "object",
    "properties": {f"field_{n}": {"type": "string", "title": "<img src=x onerror=alert(1)>" * 50} for n in range(3000)},
}
MIXED: dict[str, Any] = {
    "type": "object",
    "required": ["count"],
    "properties": {
        "count": {"type": "integer", "maximum": 10},
        "price": {"type": "number", "exclusiveMinimum": 0},
        "tags": {"type": "array", "items": {"type": "string"}},
        "way": {"oneOf": [{"title": "By mail", "type": "string"}, {"title": "By car", "type": "integer"}]},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "__proto__": {"type": "string"},
        "name": {"type": "string", "pattern": "(a+)+$"},
        "more": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
}


def define(samples: Samples, name: str, schema: dict[str, Any]) -> None:
    task = {"name": "nothing", "taskReferenceName": "nothing", "type": "WAIT"}
    definition = {"name": name, "version": 1, "tasks": [task]}
    definition["inputSchema"] = {"name": name, "version": 1, "type": "JSON", "data": schema}
    samples.call("PUT", "/metadata/workflow", [definition])


def open_form(page: WatchedPage, name: str) -> Any:
    page.go(f"/workflowDef/{name}")
    page.button("Start …").click()
    dialog = page.tab.get_by_role("dialog")
    expect(dialog).to_be_visible()
    return dialog


class TestInbox:
    def test_a_waiting_person_is_asked_by_the_form_of_the_task(self, page: WatchedPage, samples: Samples) -> None:
        mark = f"EX-{page.width}"
        started = samples.start("expense", {"amount": 1500, "for_what": "an anvil"}, correlationId=mark)
        page.go("/inbox")
        expect(page.tab.locator("nav .badge")).to_contain_text("waiting")
        entry = page.tab.locator(".inbox li", has_text=mark)
        expect(entry).to_contain_text("Approve the expense")
        expect(entry).to_contain_text("an anvil")
        entry.get_by_role("button", name="Complete").click()
        dialog = page.tab.get_by_role("dialog")
        expect(dialog).to_contain_text("an anvil")
        for theme in ("light", "dark"):
            page.tab.emulate_media(color_scheme=theme)
            assert page.faults() == []
        page.confirm("Complete")
        expect(dialog.get_by_role("alert").last).to_have_text("decision is required: choose a value")
        expect(dialog.get_by_label("Decision")).to_be_focused()
        dialog.get_by_label("Decision").select_option("approve")
        dialog.get_by_role("button", name="Add address").click()
        dialog.get_by_label("city").fill("Berlin")
        dialog.get_by_role("button", name="Add lines").click()
        dialog.get_by_label("sku").fill("A-1")
        page.confirm("Complete")
        page.says("approval is completed.")
        expect(entry).to_have_count(0)
        (task,) = samples.workflow(started)["tasks"]
        answer = {"decision": "approve", "limit": 500, "address": {"city": "Berlin"}, "lines": [{"sku": "A-1"}]}
        assert task["outputData"] == answer

    def test_a_waiting_task_is_failed_from_the_inbox(self, page: WatchedPage, samples: Samples) -> None:
        started = samples.start("expense", {"amount": 3}, correlationId=f"EX-bad-{page.width}")
        page.go("/inbox")
        entry = page.tab.locator(".inbox li", has_text=f"EX-bad-{page.width}")
        entry.get_by_role("button", name="Fail").click()
        page.tab.get_by_role("dialog").get_by_label("Reason").fill("no money")
        page.confirm("Fail")
        page.says("approval has failed.")
        assert "no money" in samples.workflow(started)["reasonForIncompletion"]


class TestForms:
    def test_a_form_sends_the_types_of_its_schema(self, page: WatchedPage, samples: Samples) -> None:
        define(samples, "mixed_form", MIXED)
        dialog = open_form(page, "mixed_form")
        alert = dialog.get_by_role("alert").last
        page.confirm("Start")
        expect(alert).to_have_text("count is required")
        dialog.get_by_label("count").fill("11")
        page.confirm("Start")
        expect(alert).to_have_text("count must be at most 10, not 11")
        dialog.get_by_label("count").fill("12345678901234567890")
        page.confirm("Start")
        expect(alert).to_contain_text("cannot send 12345678901234567890 exactly")
        dialog.get_by_label("count").fill("7")
        dialog.get_by_label("price").fill("0.5")
        dialog.get_by_role("button", name="Add tags").click()
        dialog.get_by_role("textbox", name="tags 1").fill("new")
        dialog.get_by_label("way").select_option("1")
        dialog.get_by_label("value").fill("3")
        dialog.get_by_label("__proto__").fill("kept")
        dialog.get_by_label("name").fill("aaa")
        dialog.get_by_label("more").fill('{"a": 1}')
        dialog.get_by_role("button", name="JSON", exact=True).click()
        shown = json.loads(dialog.get_by_label("Input, as JSON").input_value())
        assert (shown["tags"], shown["way"], shown["__proto__"]) == (["new"], 3, "kept")
        dialog.get_by_role("button", name="Form", exact=True).click()
        page.confirm("Start")
        page.says("Started mixed_form")
        given = samples.workflow(page.tab.url.rpartition("/")[2])["input"]
        assert (given["count"], given["price"], given["tags"], given["way"]) == (7, 0.5, ["new"], 3)
        assert (given["__proto__"], given["more"]) == ("kept", {"a": 1})
        assert "maybe" not in given

    def test_a_hostile_schema_does_not_hang_the_form(self, page: WatchedPage, samples: Samples) -> None:
        define(samples, "endless_form", ENDLESS)
        dialog = open_form(page, "endless_form")
        assert dialog.locator("input, textarea, select").count() < 300
        page.confirm("Cancel")
        define(samples, "huge_form", HUGE)
        dialog = open_form(page, "huge_form")
        assert dialog.locator("input, textarea, select").count() < 300
        assert dialog.locator("img").count() == 0
        expect(dialog).to_contain_text("2750 more fields of the schema")
        assert page.overflow() <= 0
