"""Every action of the web UI, in a real browser on real workflows."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Route, expect

from tests.browser.sample_workflows import Samples
from tests.browser.watched_page import WatchedPage


@pytest.fixture
def approval(samples: Samples, width: int) -> str:
    """A workflow that waits for a person."""
    return samples.order(f"approval-{width}", "large")


class TestStart:
    def test_a_workflow_is_started_by_a_form_made_of_its_schema(self, page: WatchedPage, samples: Samples) -> None:
        page.go("/definitions")
        page.button("Start order_flow").click()
        dialog = page.tab.get_by_role("dialog")
        assert page.faults() == []
        expect(dialog.get_by_label("item")).to_be_focused()
        dialog.get_by_label("item").fill("piano")
        dialog.get_by_label("amount").fill("3")
        dialog.get_by_label("gift").check()
        dialog.get_by_label("speed").select_option("fast")
        dialog.get_by_label("Correlation id").fill(f"from-the-page-{page.width}")
        page.confirm("Start")
        page.says("Started order_flow")
        page.status_is("RUNNING")
        started = samples.workflow(page.tab.url.rpartition("/")[2])
        assert started["input"] == {"item": "piano", "amount": 3, "gift": True, "speed": "fast"}
        assert started["correlationId"] == f"from-the-page-{page.width}"

    def test_the_start_form_is_never_filled_with_the_input_of_an_earlier_run_u5_6(
        self, page: WatchedPage, samples: Samples
    ) -> None:
        samples.start("abroad", {"order": {"number": 7}})
        page.go("/?name=abroad")
        page.button("Start a workflow …").click()
        given = page.tab.get_by_role("dialog").get_by_label("Input, as JSON")
        expect(given).to_have_value("{}")
        given.fill('{"order": {"number": 8}}')
        page.confirm("Start")
        page.says("Started abroad")
        expect(page.tab).to_have_url(re.compile("/execution/"))
        assert samples.workflow(page.tab.url.rpartition("/")[2])["input"] == {"order": {"number": 8}}

    def test_the_start_form_says_what_is_wrong_with_the_input(self, page: WatchedPage) -> None:
        page.go("/?name=abroad")
        page.button("Start a workflow …").click()
        dialog = page.tab.get_by_role("dialog")
        dialog.get_by_label("Input, as JSON").fill("{not json")
        page.confirm("Start")
        expect(dialog.get_by_role("alert").last).to_contain_text("The input is not JSON")

    def test_any_definition_is_started_from_the_list_with_a_field_for_each_input(
        self, page: WatchedPage, samples: Samples
    ) -> None:
        page.go("/")
        page.button("Start a workflow …").click()
        dialog = page.tab.get_by_role("dialog")
        dialog.get_by_label("Workflow").select_option("expense")
        dialog.get_by_label("amount").fill("5")
        dialog.get_by_label("for_what").fill("[1] is text, 2 is not")
        page.confirm("Start")
        expect(dialog.get_by_role("alert").last).to_contain_text("for_what is not JSON")
        dialog.get_by_label("for_what").fill("a lamp")
        page.confirm("Start")
        page.says("Started expense")
        started = samples.workflow(page.tab.url.rpartition("/")[2])
        assert started["input"] == {"amount": 5, "for_what": "a lamp"}

    def test_an_error_of_the_server_stays_in_the_dialog_with_what_was_typed(self, page: WatchedPage) -> None:
        page.expected_statuses = {400}
        page.go("/workflowDef/order_flow?version=3")
        page.button("Start …").click()
        dialog = page.tab.get_by_role("dialog")
        dialog.get_by_label("item").fill("lamp")
        page.tab.route(
            "**/api/workflow/order_flow*",
            lambda route: route.fulfill(status=400, json={"message": "no lamps are left"}),
        )
        page.confirm("Start")
        expect(dialog.get_by_role("alert").last).to_have_text("no lamps are left")
        expect(dialog.get_by_label("item")).to_have_value("lamp")


class TestOneWorkflow:
    def test_a_workflow_is_paused_and_resumed(self, page: WatchedPage, approval: str) -> None:
        page.go(f"/execution/{approval}")
        page.button("Pause").click()
        page.confirm("Pause")
        page.status_is("PAUSED")
        expect(page.tab.locator(".title .why")).to_contain_text("paused: no further task is scheduled")
        page.button("Resume").click()
        page.confirm("Resume")
        page.status_is("RUNNING")

    def test_a_workflow_is_terminated_with_a_reason_and_retried(
        self, page: WatchedPage, samples: Samples, approval: str
    ) -> None:
        page.go(f"/execution/{approval}")
        page.button("Terminate").click()
        page.tab.get_by_role("dialog").get_by_label("Reason").fill("called off")
        page.confirm("Terminate")
        page.status_is("TERMINATED")
        assert samples.workflow(approval)["reasonForIncompletion"] == "called off"
        page.button("Retry").click()
        page.confirm("Retry")
        page.status_is("RUNNING")

    def test_a_workflow_that_failed_is_retried_and_goes_on(self, page: WatchedPage, samples: Samples) -> None:
        failed = samples.refused(f"retried-{page.width}")
        page.go(f"/execution/{failed}")
        page.button("Retry").click()
        page.confirm("Retry")
        page.status_is("RUNNING")
        samples.work("charge", output={"receipt": "R-1"})
        for name in ("drive", "hand_over", "notify"):
            samples.work(name)
        page.status_is("COMPLETED")

    def test_a_workflow_is_restarted(self, page: WatchedPage, samples: Samples) -> None:
        done = samples.charged(f"restarted-{page.width}")
        page.go(f"/execution/{done}")
        page.button("Restart").click()
        page.confirm("Restart")
        page.status_is("RUNNING")
        assert [task["referenceTaskName"] for task in samples.workflow(done)["tasks"]] == ["validate"]

    def test_a_workflow_runs_again_from_a_task(self, page: WatchedPage, samples: Samples) -> None:
        done = samples.charged(f"rerun-{page.width}")
        page.go(f"/execution/{done}?task=notify")
        page.button("Rerun from here").click()
        page.confirm("Rerun from here")
        page.says("Rerun from notify.")
        page.status_is("RUNNING")
        samples.work("notify")
        page.status_is("COMPLETED")

    def test_a_workflow_runs_again_with_another_input_u5_8(self, page: WatchedPage, samples: Samples) -> None:
        done = samples.charged(f"rerun-changed-{page.width}")
        page.go(f"/execution/{done}?task=notify")
        page.button("Rerun from here").click()
        dialog = page.tab.get_by_role("dialog")
        dialog.get_by_text("Change the input of the task").click()
        dialog.get_by_label("Input of the task, as JSON").fill('{"to": "Ada"}')
        assert page.faults() == []
        page.confirm("Rerun from here")
        page.status_is("RUNNING")
        assert samples.workflow(done)["tasks"][-1]["inputData"] == {"to": "Ada"}
        samples.work("notify")
        page.status_is("COMPLETED")
        page.button("Restart").click()
        dialog.get_by_label("item").fill("piano")
        page.confirm("Restart")
        page.status_is("RUNNING")
        assert samples.workflow(done)["input"]["item"] == "piano"

    def test_a_workflow_is_started_again_with_another_input_u5_8(self, page: WatchedPage, samples: Samples) -> None:
        page.go(f"/execution/{samples.ids['failed']}")
        page.button("Start again").click()
        dialog = page.tab.get_by_role("dialog")
        expect(dialog.get_by_label("item")).to_have_value("lamp")
        dialog.get_by_label("item").fill("piano")
        dialog.get_by_label("Correlation id").fill(f"again-{page.width}")
        page.confirm("Start")
        page.says("Started order_flow")
        started = samples.workflow(page.tab.url.rpartition("/")[2])
        assert started["input"] == {"item": "piano", "amount": 2, "gift": True}

    def test_a_cancelled_dialog_changes_nothing(self, page: WatchedPage, approval: str) -> None:
        page.go(f"/execution/{approval}")
        page.button("Terminate").click()
        page.confirm("Cancel")
        expect(page.tab.get_by_role("dialog")).to_have_count(0)
        page.status_is("RUNNING")

    def test_escape_closes_a_dialog_only_if_nothing_was_typed(self, page: WatchedPage, approval: str) -> None:
        page.go(f"/execution/{approval}")
        dialog = page.tab.get_by_role("dialog")
        page.button("Terminate").click()
        page.tab.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        page.button("Terminate").click()
        dialog.get_by_label("Reason").fill("a long story")
        for _ in range(3):
            page.tab.keyboard.press("Escape")
        expect(dialog.get_by_role("alert")).to_have_text("Press Cancel to discard your changes.")
        expect(dialog.get_by_label("Reason")).to_have_value("a long story")
        page.confirm("Cancel")
        page.status_is("RUNNING")

    def test_only_the_actions_that_apply_are_offered(self, page: WatchedPage, samples: Samples) -> None:
        for state, offered in (
            ("completed", ["Restart", "Start again"]),
            ("failed", ["Retry", "Restart", "Start again"]),
        ):
            page.go(f"/execution/{samples.ids[state]}")
            page.status_is(state.upper())
            expect(page.tab.locator(".title .buttons button")).to_have_text(offered)


class TestByHand:
    def test_a_wait_is_completed_by_a_form(self, page: WatchedPage, samples: Samples, approval: str) -> None:
        page.go(f"/execution/{approval}")
        expect(page.tab.locator(".title .why")).to_contain_text("approve waits for a signal to complete it")
        page.button("Complete").click()
        page.tab.get_by_role("dialog").get_by_label("Output, as JSON").fill('{"by": "Ada"}')
        page.confirm("Complete")
        page.says("approve is completed.")
        expect(page.node("split")).to_have_class(re.compile(r"\bok\b"))
        approved = next(one for one in samples.workflow(approval)["tasks"] if one["referenceTaskName"] == "approve")
        assert approved["outputData"] == {"by": "Ada"}

    def test_a_wait_is_failed_with_a_reason(self, page: WatchedPage, approval: str) -> None:
        page.go(f"/execution/{approval}")
        page.button("Fail").click()
        page.tab.get_by_role("dialog").get_by_label("Reason").fill("too expensive")
        page.confirm("Fail")
        page.says("approve has failed.")
        page.status_is("FAILED")
        expect(page.tab.locator(".title .why")).to_contain_text("too expensive")


class TestMany:
    def test_selected_workflows_are_retried(self, page: WatchedPage, samples: Samples) -> None:
        mark = f"bulk-retry-{page.width}"
        ids = [samples.refused(mark) for _ in range(2)]
        page.go(f"/?text={mark}")
        for box in page.tab.locator("tbody input[type=checkbox]").all():
            box.check()
        page.button("Retry 2").click()
        page.confirm("Retry")
        page.says("2 workflows retried")
        assert {samples.workflow(one)["status"] for one in ids} == {"RUNNING"}
        expect(page.tab.locator("tbody .status.run")).to_have_count(2)

    def test_selected_workflows_are_terminated(self, page: WatchedPage, samples: Samples) -> None:
        mark = f"bulk-terminate-{page.width}"
        ids = [samples.start("reminder", correlationId=mark) for _ in range(2)]
        page.go(f"/?text={mark}")
        page.tab.locator("tbody input[type=checkbox]").first.check()
        expect(page.tab.get_by_role("button", name=re.compile("^(Retry|Resume|Restart)"))).to_have_count(0)
        page.button("Terminate 1").click()
        page.tab.get_by_role("dialog").get_by_label("Reason").fill("too many")
        page.confirm("Terminate")
        page.says("1 workflow terminated")
        assert [samples.workflow(one)["status"] for one in ids] == ["RUNNING", "TERMINATED"]

    def test_a_refused_bulk_action_is_shown_in_its_dialog_and_repeated_for_the_rest(
        self, page: WatchedPage, samples: Samples
    ) -> None:
        mark = f"bulk-refused-{page.width}"
        ids = [samples.start("reminder", correlationId=mark) for _ in range(2)]
        page.go(f"/?text={mark}")
        page.tab.get_by_label("Select all on this page").check()
        page.button("Pause 2").click()
        asked: list[list[str]] = []

        def answer(route: Route) -> None:
            asked.append(list(route.request.post_data_json or []))
            refused = {ids[0]: "the disk is full"} if len(asked) == 1 else {}
            done = [one for one in asked[-1] if one not in refused]
            route.fulfill(json={"bulkErrorResults": refused, "bulkSuccessfulResults": done})

        page.tab.route("**/api/workflow/bulk/pause", answer)
        page.confirm("Pause")
        alert = page.tab.get_by_role("dialog").get_by_role("alert")
        expect(alert).to_have_text("1 workflow paused, 1 workflow not: the disk is full.")
        page.confirm("Pause")
        page.says("2 workflows paused")
        assert (sorted(asked[0]), asked[1]) == (sorted(ids), ids[:1])

    def test_a_refused_action_is_shown(self, page: WatchedPage, approval: str) -> None:
        page.expected_statuses = {500, 404}
        page.go(f"/execution/{approval}")
        page.button("Terminate").click()
        page.tab.route(
            "**/api/workflow/*", lambda route: route.fulfill(status=500, json={"message": "the disk is full"})
        )
        page.confirm("Terminate")
        expect(page.tab.get_by_role("dialog").get_by_role("alert")).to_have_text("the disk is full")
