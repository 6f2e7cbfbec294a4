"""Every view on real workflows, at both widths and in both themes: its content and its accessibility."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.browser.sample_workflows import WIDE, Samples, task
from tests.browser.watched_page import WatchedPage

VIEWS = {
    "workflows": "/",
    "nothing found": "/?text=no-such-thing",
    "failed workflow": "/execution/{failed}",
    "running workflow": "/execution/{leased}",
    "workflow that waits for a person": "/execution/{approval}",
    "completed workflow": "/execution/{completed}?task=delivery",
    "loop": "/execution/{loops}",
    "wide fork": "/execution/{wide}?branches=fan_out",
    "queues": "/queues",
    "definitions": "/definitions",
    "workflow definition": "/workflowDef/order_flow?version=3&against=2",
    "task definition": "/taskDef/charge",
    "schedules": "/schedules",
    "server": "/server",
}


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_accessible(view: str, page: WatchedPage, samples: Samples) -> None:
    page.expected_statuses = {404} if view == "schedules" else set()
    page.go(VIEWS[view].format(**samples.ids))
    expect(page.tab.locator("h1")).to_have_count(1)
    for theme in ("light", "dark"):
        page.tab.emulate_media(color_scheme=theme)
        assert page.faults() == []
    assert page.overflow() <= 0


class TestWorkflows:
    def test_workflows_show_status_name_times_and_why(self, page: WatchedPage, samples: Samples) -> None:
        page.go("/?text=" + samples.ids["unpolled"])
        row = page.tab.locator("tbody tr")
        expect(row).to_have_count(1)
        expect(row).to_contain_text("RUNNING")
        expect(row).to_contain_text("order-8850")
        expect(row).to_contain_text("no worker has polled charge_eu")

    def test_workflows_can_be_filtered_and_the_address_says_so(self, page: WatchedPage) -> None:
        page.go("/")
        page.button("Failed").click()
        expect(page.tab).to_have_url(re.compile(r"\?status=FAILED$"))
        expect(page.tab.locator("tbody .status").first).to_contain_text("FAILED")
        expect(page.tab.locator("tbody .status.ok")).to_have_count(0)
        page.tab.go_back()
        expect(page.tab.locator("tbody .status.ok").first).to_be_visible()

    def test_workflows_are_searched_from_every_view(self, page: WatchedPage, samples: Samples) -> None:
        page.go("/queues")
        page.tab.get_by_role("searchbox").fill("order-8842")
        page.tab.get_by_role("searchbox").press("Enter")
        expect(page.tab.locator("tbody tr")).to_have_count(1)
        page.link("order_flow").click()
        expect(page.tab).to_have_url(f"{samples.root}/execution/{samples.ids['failed']}")

    def test_workflows_are_shown_page_by_page(self, page: WatchedPage, samples: Samples) -> None:
        for number in range(60):
            samples.start("reminder", correlationId=f"page-{page.width}-{number}")
        page.go(f"/?name=reminder&text=page-{page.width}-")
        expect(page.tab.locator("tbody tr")).to_have_count(50)
        page.link("Older »").click()
        expect(page.tab).to_have_url(re.compile("before="))
        expect(page.tab.locator("tbody tr")).to_have_count(10)
        page.link("« Newest").click()
        expect(page.tab.locator("tbody tr")).to_have_count(50)

    def test_workflows_appear_and_change_by_themselves(self, page: WatchedPage, samples: Samples) -> None:
        mark = f"by-itself-{page.width}"
        page.go(f"/?text={mark}")
        expect(page.tab.get_by_text("No workflow matches.")).to_be_visible()
        started = samples.start("reminder", correlationId=mark)
        expect(page.tab.locator("tbody .status")).to_contain_text("RUNNING")
        samples.call("DELETE", f"/workflow/{started}")
        expect(page.tab.locator("tbody .status")).to_contain_text("TERMINATED")


class TestOneWorkflow:
    def test_a_workflow_that_failed_says_why_shows_the_task_and_its_attempts(
        self, page: WatchedPage, samples: Samples
    ) -> None:
        page.go(f"/execution/{samples.ids['failed']}")
        expect(page.tab.locator(".title .why")).to_contain_text("charge is out of retries: attempt 3 of 3 failed")
        panel = page.tab.locator("section.task")
        expect(panel).to_contain_text("ConnectionError: bank.example refused")
        expect(panel.locator(".logs li")).to_have_count(2)
        expect(panel.locator(".attempts li")).to_have_count(3)
        panel.locator(".attempts").get_by_role("link", name="1", exact=True).click()
        expect(page.tab).to_have_url(re.compile("attempt="))

    def test_a_workflow_shows_the_case_that_was_taken_and_those_that_were_not(
        self, page: WatchedPage, samples: Samples
    ) -> None:
        page.go(f"/execution/{samples.ids['failed']}")
        expect(page.tab.locator(".graph g.taken")).to_contain_text("wrap_as_gift")
        expect(page.tab.locator(".graph g.untaken").first).to_contain_text("approve")
        page.node("large_order").click()
        expect(page.tab.locator("section.task .facts")).to_contain_text("small")

    def test_a_running_workflow_shows_lease_progress_and_logs(self, page: WatchedPage, samples: Samples) -> None:
        page.go(f"/execution/{samples.ids['leased']}")
        panel = page.tab.locator("section.task")
        expect(panel.locator(".why")).to_contain_text("has been running on host-4-901")
        expect(panel.locator(".facts")).to_contain_text("Lease left")
        expect(panel).to_contain_text("Output so far")
        expect(panel).to_contain_text('"packed": 3')
        expect(panel).to_contain_text("box 3 of 8")

    def test_a_workflow_leads_into_its_sub_workflow_and_back(self, page: WatchedPage, samples: Samples) -> None:
        page.go(f"/execution/{samples.ids['completed']}")
        page.node("delivery").click()
        page.link("Open the sub-workflow →").click()
        expect(page.tab.locator("h1")).to_contain_text("delivery")
        page.link("its parent workflow").click()
        expect(page.tab.locator("h1")).to_contain_text("order_flow")

    def test_a_workflow_with_a_loop_shows_its_iterations(self, page: WatchedPage, samples: Samples) -> None:
        page.go(f"/execution/{samples.ids['loops']}")
        expect(page.tab.locator(".graph .loop")).to_contain_text("iteration 3/3")
        page.link("iteration 2 of pages").click()
        expect(page.tab.locator(".graph .loop")).to_contain_text("iteration 2/3")
        page.node("fetch_page").click()
        expect(page.tab.locator("section.task h2")).to_have_text("fetch_page__2")

    def test_a_workflow_with_a_wide_fork_stays_readable(self, page: WatchedPage, samples: Samples) -> None:
        page.go(f"/execution/{samples.ids['wide']}")
        expect(page.tab.locator(".graph a.node")).to_have_count(6)
        folded = page.tab.locator(".graph .folded")
        expect(folded).to_contain_text(f"{WIDE} branches")
        expect(folded).to_contain_text("20 ✓")
        folded.click()
        expect(page.tab.locator(".branches li")).to_have_count(WIDE)
        page.tab.locator(".branches").get_by_role("link", name="thumbnail_199").click()
        expect(page.tab.locator("section.task h2")).to_have_text("thumbnail_199")

    def test_a_workflow_can_be_walked_with_the_keyboard(self, page: WatchedPage, samples: Samples) -> None:
        page.go(f"/execution/{samples.ids['failed']}")
        page.tab.keyboard.press("Tab")
        expect(page.link("Skip to content")).to_be_focused()
        page.node("validate").focus()
        page.tab.keyboard.press("Enter")
        expect(page.tab.locator("section.task h2")).to_have_text("validate")
        page.tab.keyboard.press("Tab")
        expect(page.node("large_order")).to_be_focused()

    def test_an_unknown_workflow_is_said_to_be_unknown(self, page: WatchedPage) -> None:
        page.expected_statuses = {404}
        page.tab.goto(f"{page.root}/execution/nothing")
        expect(page.tab.get_by_role("alert")).to_contain_text("No such workflow found by id: nothing")


class TestTypesOfOtherServers:
    """A definition may have types that this coordinator has not: they are drawn all the same."""

    def test_a_dynamic_fork_is_folded_and_an_unknown_type_is_a_box(self, page: WatchedPage, samples: Samples) -> None:
        tasks = [
            task("spread", kind="FORK_JOIN_DYNAMIC"),
            task("gather", kind="JOIN"),
            task("whichever", kind="DYNAMIC"),
            task("ask_bank", kind="HTTP"),
            task("odd", kind="NOBODY_KNOWS_IT"),
            task("sign", kind="HUMAN"),
        ]
        line = {
            "name": "image",
            "type": "SIMPLE",
            "status": "COMPLETED",
            "scheduledMs": 1,
            "startedMs": 1,
            "endedMs": 2,
        }
        lines = [{**line, "taskId": f"t{n}", "ref": f"image_{n}", "baseRef": f"image_{n}", "seq": n} for n in range(30)]
        shown = samples.call("GET", f"/view/workflow/{samples.ids['completed']}")
        shown["workflow"]["workflowDefinition"] = {"name": "other", "version": 1, "tasks": tasks}
        shown["tasks"] = lines
        page.tab.route("**/api/view/workflow/**", lambda route: route.fulfill(json=shown))
        page.go("/execution/x")
        expect(page.tab.locator(".graph .folded")).to_contain_text("30 forked tasks")
        for ref in ("spread", "gather", "whichever", "ask_bank", "odd", "sign"):
            expect(page.node(ref)).to_be_visible()
        expect(page.node("odd")).to_contain_text("nobody knows it")
        page.tab.locator(".graph .folded").click()
        expect(page.tab.locator(".branches li")).to_have_count(30)


class TestTwoClicks:
    """The three commonest faults, from the first view."""

    def test_two_clicks_lead_to_a_queue_without_workers(self, page: WatchedPage, samples: Samples) -> None:
        page.go("/")
        page.tab.locator(".numbers").get_by_role("link", name="no workers").click()
        expect(page.tab.locator(".alarm", has_text="charge_eu")).to_contain_text(
            "Start a worker that polls charge_eu, without a domain."
        )

    def test_two_clicks_lead_to_a_task_of_another_domain(self, page: WatchedPage, samples: Samples) -> None:
        samples.served()
        page.go("/queues")
        alarm = page.tab.locator(".alarm", has_text="convert in domain gpu")
        expect(alarm).to_contain_text("workers of convert poll in no domain")
        expect(alarm).to_contain_text("or start workflows without taskToDomain")

    def test_two_clicks_lead_to_a_task_out_of_retries(self, page: WatchedPage) -> None:
        page.go("/")
        page.tab.locator(".numbers").get_by_role("link", name="failed (1 h)").click()
        expect(page.tab.locator("tbody tr").first).to_contain_text("charge is out of retries: attempt ")


class TestOtherViews:
    def test_queues_show_depth_running_tasks_limits_and_workers(self, page: WatchedPage, samples: Samples) -> None:
        samples.served()
        page.go("/queues")
        row = page.tab.locator("tbody tr", has_text="thumbnail")
        expect(row).to_contain_text("20 concurrent")
        expect(row).to_contain_text("host-2-77 (8 running)")
        expect(row.locator(".verdicts")).to_have_text("22 committed")
        expect(page.tab.locator("tbody tr.bad", has_text="charge_eu")).to_contain_text("no workers")

    def test_a_definition_shows_its_graph_versions_and_difference(self, page: WatchedPage) -> None:
        page.go("/definitions")
        page.link("order_flow").click()
        expect(page.node("split")).to_be_visible()
        page.tab.get_by_label("Compare with").select_option("2")
        expect(page.tab.locator(".diff .plus").first).to_be_visible()
        expect(page.tab).to_have_url(re.compile("against=2"))

    def test_a_task_shows_its_settings_schema_and_users(self, page: WatchedPage) -> None:
        page.go("/taskDef/pack")
        expect(page.tab.locator("main")).to_contain_text("Input schema")
        expect(page.tab.locator("main")).to_contain_text("order_flow v3")

    def test_schedules_say_that_there_are_none(self, page: WatchedPage) -> None:
        page.expected_statuses = {404}
        page.go("/schedules")
        expect(page.tab.locator(".blank")).to_contain_text(re.compile("no schedule", re.IGNORECASE))

    def test_schedules_show_their_next_runs_and_are_paused(self, page: WatchedPage) -> None:
        """Whether the coordinator has them or not: the answers are those of Conductor's API."""
        soon = 60_000 + page.tab.evaluate("Date.now()")
        nightly = {"name": "nightly", "cronExpression": "0 0 2 * * ?", "zoneId": "UTC", "nextRunTime": soon}
        nightly["startWorkflowRequest"] = {"name": "nightly_sync"}
        run = {"executionId": "1", "scheduleName": "nightly", "scheduledTime": 1, "state": "EXECUTED"}
        answers = {
            "schedules": [nightly],
            "nextFewSchedules": [soon, soon + 86_400_000],
            "executions": {"totalHits": 1, "results": [{**run, "workflowName": "nightly_sync", "workflowId": "x"}]},
        }
        paused: list[str] = []

        def answer(route: Route) -> None:
            if route.request.method == "PUT":
                paused.append(route.request.url)
                nightly["paused"] = True
            last = route.request.url.partition("?")[0].rpartition("/")[2]
            route.fulfill(json=answers.get(last, {}))

        page.tab.route("**/api/scheduler/**", answer)
        page.go("/schedules")
        row = page.tab.locator("tbody tr", has_text="0 0 2 * * ?")
        expect(row).to_contain_text("ACTIVE")
        expect(row).to_contain_text(re.compile(r"in \d+ s"))
        expect(page.tab.locator("tbody tr", has_text="EXECUTED")).to_contain_text("nightly_sync")
        assert page.faults() == []
        page.button("Pause nightly").click()
        page.tab.get_by_role("dialog").get_by_label("Reason").fill("holidays")
        page.confirm("Pause")
        expect(row).to_contain_text("PAUSED")
        assert paused == [f"{page.root}/api/scheduler/schedules/nightly/pause?reason=holidays"]

    def test_the_server_says_how_it_is(self, page: WatchedPage) -> None:
        page.go("/server")
        expect(page.tab.locator("main")).to_contain_text("HEALTHY")


class TestTheFrame:
    def test_the_theme_is_kept(self, page: WatchedPage) -> None:
        page.go("/")
        background = "getComputedStyle(document.body).backgroundColor"
        light = page.tab.evaluate(background)
        for _ in range(2):
            page.tab.locator("button.theme").click()
        assert page.tab.evaluate(background) != light
        page.go("/queues")
        assert page.tab.evaluate(background) != light

    def test_a_page_that_nobody_looks_at_asks_for_nothing(self, page: WatchedPage) -> None:
        page.tab.clock.install()
        page.go("/")
        hide = "Object.defineProperty(document, 'visibilityState', { get: () => globalThis.seen ?? 'hidden' })"
        page.tab.evaluate(hide + "; document.dispatchEvent(new Event('visibilitychange'))")
        before = len(page.requests)
        page.tab.clock.fast_forward("10:00")
        assert page.requests[before:] == []
        with page.tab.expect_response(re.compile("/api/view/overview")):
            page.tab.evaluate("globalThis.seen = 'visible'; document.dispatchEvent(new Event('visibilitychange'))")

    def test_a_workflow_that_has_ended_is_seldom_asked_for(self, page: WatchedPage, samples: Samples) -> None:
        page.tab.clock.install()
        page.go(f"/execution/{samples.ids['completed']}")
        before = len(page.requests)
        page.tab.clock.fast_forward(9_000)
        assert page.requests[before:] == []

    def test_a_coordinator_that_is_gone_is_said_and_found_again(self, page: WatchedPage) -> None:
        page.go("/")
        page.tab.route("**/api/**", lambda route: route.abort())
        page.button("Failed").click()
        expect(page.tab.get_by_role("alert")).to_contain_text("does not answer")
        page.tab.unroute("**/api/**")
        expect(page.tab.get_by_role("alert")).to_have_count(0)
        assert all("ERR_FAILED" in error for error in page.errors)
        page.errors.clear()


def test_the_web_ui_asks_for_key_and_secret(browser: Browser, guarded: Samples, width: int) -> None:
    with WatchedPage(browser, guarded.root, width) as page:
        page.expected_statuses = {401}
        page.go("/definitions")
        assert page.faults() == []
        page.tab.get_by_role("textbox", name="Key", exact=True).fill("key")
        page.tab.get_by_label("Secret", exact=True).fill("wrong")
        page.confirm("Sign in")
        expect(page.tab.get_by_role("dialog").get_by_role("alert")).to_have_text("Unknown key or wrong secret.")
        page.tab.get_by_role("textbox", name="Key", exact=True).fill("key")
        page.tab.get_by_label("Secret", exact=True).fill("secret")
        page.confirm("Sign in")
        expect(page.link("order_flow")).to_be_visible()
        page.tab.reload()
        expect(page.link("order_flow")).to_be_visible()
        page.button("Sign out").click()
        expect(page.tab.get_by_role("dialog")).to_be_visible()
