"""Every view on real workflows, at both widths and in both themes: its content and its accessibility."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.sample_workflows import WIDE, Samples, task
from tests.browser.watched_page import WatchedPage

VIEWS = {
    "overview": "/",
    "overview of a week": "/?hours=168",
    "workflows": "/workflows",
    "nothing found": "/workflows?text=no-such-thing",
    "failures": "/failures",
    "workers": "/workers",
    "failed workflow": "/execution/{failed}",
    "running workflow": "/execution/{leased}",
    "workflow that waits for a person": "/execution/{approval}",
    "completed workflow": "/execution/{completed}?task=delivery",
    "loop": "/execution/{loops}",
    "nested loops": "/execution/{nested}?task=tick",
    "deep sub-workflows": "/execution/{deep}",
    "wide fork": "/execution/{wide}?branches=fan_out",
    "inbox": "/inbox",
    "queues": "/queues",
    "definitions": "/definitions",
    "workflow definition": "/workflowDef/order_flow?version=3&against=2",
    "task definition": "/taskDef/charge",
    "schedules": "/schedules",
    "schedule": "/schedules/nightly-sync",
    "secrets": "/secrets",
    "server": "/server",
}


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_accessible(view: str, page: WatchedPage, samples: Samples) -> None:
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
        page.go("/workflows")
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
        page.tab.wait_for_function("scrollY === 0")
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
        expect(page.tab.locator(".legend")).to_contain_text(re.compile("waited +ran +failed +stopped"))
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
        page.tab.get_by_role("navigation", name="Parent workflows").get_by_role("link", name="order_flow").click()
        expect(page.tab.locator("h1")).to_contain_text("order_flow")

    def test_a_workflow_with_a_loop_shows_its_iterations(self, page: WatchedPage, samples: Samples) -> None:
        page.go(f"/execution/{samples.ids['loops']}")
        expect(page.tab.locator(".graph .loop")).to_contain_text("iteration 3/3")
        page.link("iteration 2 of pages").click()
        expect(page.tab.locator(".graph .loop")).to_contain_text("iteration 2/3")
        page.node("fetch_page").click()
        expect(page.tab.locator("section.task h2")).to_have_text("fetch_page__2")

    def test_nested_loops_show_every_run_of_a_task_u1_7(self, page: WatchedPage, samples: Samples) -> None:
        page.go(f"/execution/{samples.ids['nested']}")
        expect(page.tab.locator(".graph .loop").last).to_contain_text("iteration 2/2")
        expect(page.tab.locator(".graph a.none")).to_have_count(0)  # nothing is drawn as not reached
        page.node("tick").click()
        panel = page.tab.locator("section.task")
        expect(panel.locator("h2")).to_have_text("tick__3__2")
        expect(panel.locator(".attempts li")).to_have_count(6)
        panel.get_by_role("link", name="Iteration 1.2").click()
        expect(panel.locator("h2")).to_have_text("tick__1__2")
        page.link("iteration 2 of outer").click()
        expect(page.tab.locator(".graph .loop").first).to_contain_text("iteration 2/3")
        page.link("iteration 1 of inner").click()
        expect(page.tab.locator(".graph .loop").last).to_contain_text("iteration 1/2")
        page.node("tick").click()
        expect(panel.locator("h2")).to_have_text("tick__2__1")

    def test_a_traceback_keeps_its_lines_u1_8(self, page: WatchedPage, samples: Samples) -> None:
        page.go(f"/execution/{samples.ids['traced']}")
        for place in (page.tab.locator(".logs li").last, page.tab.locator(".why.reason")):
            expect(place).to_have_css("white-space", "pre-wrap")
            assert "\n  File" in place.inner_text()

    def test_input_and_output_are_at_the_top_u5_2(self, page: WatchedPage, samples: Samples) -> None:
        page.go(f"/execution/{samples.ids['completed']}")
        data = page.tab.get_by_role("region", name="Input and output")
        expect(data).to_contain_text('"item": "lamp"')
        expect(data).to_contain_text('"receipt": "R-order-8811"')
        expect(page.tab.locator(".title .why")).to_have_count(0)  # the status says that it completed
        below = "([one, other]) => one.getBoundingClientRect().bottom <= other.getBoundingClientRect().top"
        handles = [data.element_handle(), page.tab.locator(".drawing").element_handle()]
        assert page.tab.evaluate(below, handles)

    def test_a_switch_names_what_it_compares_u5_5(self, page: WatchedPage, samples: Samples) -> None:
        page.go(f"/execution/{samples.ids['completed']}?task=large_order")
        expect(page.node("large_order")).to_contain_text("validate.size = small")
        expect(page.tab.locator("section.task .facts")).to_contain_text("validate.size")

    def test_a_parent_says_what_its_innermost_sub_workflow_waits_for_u5_9(
        self, page: WatchedPage, samples: Samples
    ) -> None:
        page.go(f"/execution/{samples.ids['deep']}")
        expect(page.tab.locator(".title .why").first).to_contain_text("waits for sub-workflow level_3, 2 levels below")
        expect(page.tab.locator(".why.inner")).to_contain_text("level_2 › level_3: sink waits for a worker")
        page.tab.locator(".why.inner").get_by_role("link", name="level_3").click()
        expect(page.tab.locator("h1")).to_contain_text("level_3")
        parents = page.tab.get_by_role("navigation", name="Parent workflows")
        expect(parents.get_by_role("link")).to_have_text(["level_1", "level_2"])
        parents.get_by_role("link", name="level_1").click()
        expect(page.tab.locator("h1")).to_contain_text("level_1")

    def test_a_workflow_that_a_durable_step_has_called_is_a_link_with_its_reason(
        self, page: WatchedPage, samples: Samples
    ) -> None:
        samples.call("PUT", "/metadata/workflow", [{"name": "caller", "version": 1, "tasks": [task("calling")]}])
        started = samples.start("caller")
        (taken,) = samples.poll("calling", "host-1-1234")
        step = {"name": "reminder", "kind": "WORKFLOW", "state": "WAITING", "result": {}}
        samples.report(taken, "IN_PROGRESS", suspended=True, reportId="r1", steps=[step])
        page.go(f"/execution/{started}")
        for place in (page.tab.locator(".title .why").first, page.tab.locator("section.task .why")):
            expect(place).to_contain_text("waits for workflow reminder since")
        expect(page.tab.locator(".why.inner")).to_contain_text("reminder: until_monday waits until")
        page.tab.locator("section.task .why").get_by_role("link", name="reminder").click()
        expect(page.tab.locator("h1")).to_contain_text("reminder")
        samples.call("DELETE", f"/workflow/{started}")

    def test_a_person_s_task_shows_the_command_that_completes_it_u5_28(
        self, page: WatchedPage, samples: Samples
    ) -> None:
        page.go(f"/execution/{samples.ids['approval']}")
        command = f"conductor-worker task complete {samples.ids['approval']}:approve --output '{{}}'"
        expect(page.tab.locator(".command code")).to_have_text(command)
        expect(page.tab.locator("section.task .remedy")).to_have_count(0)  # the buttons are the remedy

    def test_the_task_is_near_a_graph_that_fits_a_narrow_window_u5_15(
        self, page: WatchedPage, samples: Samples
    ) -> None:
        page.go(f"/execution/{samples.ids['failed']}")
        drawing = page.tab.locator(".drawing .scroll")
        if page.width < 700:
            assert drawing.evaluate("one => one.clientHeight <= innerHeight * 0.61")
            page.node("notify").click()
            expect(page.tab.locator("section.task h2")).to_have_text("notify")
            expect(page.tab.locator("section.task h2")).to_be_in_viewport()
        else:
            expect(page.tab.locator("section.task")).to_be_in_viewport()

    def test_a_workflow_with_a_wide_fork_stays_readable_u1_14(self, page: WatchedPage, samples: Samples) -> None:
        page.go(f"/execution/{samples.ids['wide']}")
        expect(page.tab.locator(".graph a.node")).to_have_count(6)
        folded = page.tab.locator(".graph .folded")
        expect(folded).to_contain_text(f"{WIDE} branches")
        expect(folded).to_contain_text("20 ✓")
        folded.click()
        expect(page.tab.locator(".branches li")).to_have_count(30)
        page.link(f"Show all {WIDE} branches").click()
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
            "iteration": 0,
            "status": "COMPLETED",
            "scheduledMs": 1,
            "startedMs": 1,
            "endedMs": 2,
        }
        lines = [
            {**line, "taskId": f"t{n}", "ref": f"image_{n}", "baseRef": f"image_{n}", "seq": n + 2} for n in range(30)
        ]
        shown = samples.call("GET", f"/view/workflow/{samples.ids['completed']}")
        shown["workflow"]["workflowDefinition"] = {"name": "other", "version": 1, "tasks": tasks}
        fork = {**line, "taskId": "f", "ref": "spread", "baseRef": "spread", "type": "FORK_JOIN_DYNAMIC", "seq": 1}
        shown["tasks"] = [fork, *lines]
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
        row = page.tab.locator("tbody tr", has_text="ConnectionError: bank.example refused")
        expect(row).to_contain_text("charge")
        expect(row).to_contain_text("order_flow")


class TestOtherViews:
    def test_queues_show_depth_running_tasks_limits_and_workers(self, page: WatchedPage, samples: Samples) -> None:
        samples.served()
        page.go("/queues")
        row = page.tab.locator("table.queues tbody tr", has_text="thumbnail")
        expect(row).to_contain_text("20 concurrent")
        expect(row).to_contain_text("host-2-77 (8 running)")
        expect(row).to_contain_text("8")
        page.tab.get_by_text("Reports since the server started").click()
        expect(page.tab.locator("details tbody tr", has_text="thumbnail").locator("td").first).to_have_text("22")
        unpolled = page.tab.locator("table.queues tr.bad", has_text="charge_eu")
        expect(unpolled).to_contain_text("no workers")
        expect(unpolled.get_by_text("–").first).to_be_visible(visible=page.width > 700)

    def test_a_definition_shows_its_graph_versions_and_difference(self, page: WatchedPage) -> None:
        page.go("/definitions")
        page.link("order_flow").click()
        expect(page.node("split")).to_be_visible()
        page.tab.get_by_label("Compare with").select_option("2")
        expect(page.tab.locator(".diff .plus").first).to_be_visible()
        expect(page.tab).to_have_url(re.compile("against=2"))

    def test_a_definition_shows_its_inputs_schedules_warnings_and_a_command_u5_11(self, page: WatchedPage) -> None:
        page.go("/workflowDef/order_flow?version=3")
        use = page.tab.get_by_role("region", name="Use")
        expect(use).to_contain_text("string · required · What is ordered.")
        start = 'conductor-worker workflow start order_flow --input \'{"item":"…"}\' --wait'
        expect(use.locator(".command code")).to_have_text(start)
        page.go("/workflowDef/nightly_sync")
        expect(use).to_contain_text("nightly-sync: every day at 02:00 Europe/Berlin")
        expect(page.tab.locator("main")).to_contain_text("The definition names no inputs.")
        page.go("/workflowDef/pay_bank")
        expect(page.tab.locator(".why.warn").first).to_contain_text("amount")

    def test_a_task_shows_the_schema_that_it_names_u5_11(self, page: WatchedPage) -> None:
        page.go("/taskDef/label")
        expect(page.tab.locator("main pre").first).to_contain_text('"street"')

    def test_a_task_shows_its_settings_schema_and_users(self, page: WatchedPage) -> None:
        page.go("/taskDef/pack")
        expect(page.tab.locator("main")).to_contain_text("Input schema")
        expect(page.tab.locator("main")).to_contain_text("order_flow v3")

    def test_the_server_says_how_it_is(self, page: WatchedPage) -> None:
        page.go("/server")
        expect(page.tab.locator("main")).to_contain_text("HEALTHY")


class TestOverview:
    """The questions of an operator, from the first view."""

    def test_the_overview_says_what_is_wrong_and_leads_to_it(self, page: WatchedPage, samples: Samples) -> None:
        page.go("/")
        attention = page.tab.get_by_role("region", name="Needs attention")
        expect(attention).to_contain_text("no worker has polled charge_eu")
        expect(attention).to_contain_text("Start a worker that polls charge_eu")
        for name in ("started", "finished", "failed"):
            expect(page.tab.locator(".chart", has_text=name).get_by_role("img")).to_have_attribute(
                "aria-label", re.compile(f"{name} over time: [1-9]")
            )
        expect(page.tab.get_by_role("region", name="Most failing task types")).to_contain_text("charge")
        row = page.tab.get_by_role("region", name="Failures by cause").locator("tbody tr", has_text="bank.example")
        row.locator("summary").click()
        row.get_by_role("link", name=samples.ids["failed"][:13]).click()
        expect(page.tab.locator(".title .why")).to_contain_text("charge is out of retries")

    def test_all_failures_of_a_cause_are_retried(self, page: WatchedPage, samples: Samples) -> None:
        cause = f"GatewayError: till {'small' if page.width < 1000 else 'large'} is closed"
        ids = [samples.order(f"till-{page.width}-{number}", "other") for number in range(2)]
        for one in samples.poll("pack", "host-9-9", 100):
            final = one["workflowInstanceId"] in ids
            samples.report(one, "FAILED_WITH_TERMINAL_ERROR" if final else "COMPLETED", reasonForIncompletion=cause)
        page.go("/failures")
        row = page.tab.locator("tbody tr", has_text=cause)
        expect(row.locator(".count")).to_contain_text("2")
        row.get_by_role("button").click()
        page.confirm("Retry")
        page.says("2 workflows retried")
        expect(row).to_have_count(0)
        assert {samples.workflow(one)["status"] for one in ids} == {"RUNNING"}

    def test_a_schedule_that_cannot_start_its_workflow_needs_attention(
        self, page: WatchedPage, samples: Samples
    ) -> None:
        name = f"broken-{page.width}"
        samples.schedule(name, "* * * * * *", "UTC", "no_such_workflow")
        page.go("/")
        attention = page.tab.get_by_role("region", name="Needs attention")
        expect(attention).to_contain_text(f"Schedule {name} did not start no_such_workflow: No such workflow")
        assert page.faults() == []
        attention.get_by_role("link", name=f"Schedule {name}").click()
        expect(page.tab.locator("h1")).to_have_text(name)
        samples.call("DELETE", f"/scheduler/schedules/{name}")

    def test_a_poll_that_identifies_the_server_is_not_a_worker(self, page: WatchedPage, samples: Samples) -> None:
        samples.poll("conductor_worker_doctor", "conductor_worker_doctor")
        samples.poll("slot_test", "host-8-2")
        page.go("/workers")
        expect(page.tab.locator("tbody tr", has_text="host-8-2")).to_be_visible()
        expect(page.tab.locator("tbody tr", has_text="doctor")).to_have_count(0)

    def test_workers_show_slots_versions_and_queues(self, page: WatchedPage, samples: Samples) -> None:
        about = "workerid=host-8-1&slots=4&client=conductor-worker%209.9,%20Python%203.12.1"
        samples.call("GET", f"/tasks/poll/batch/slot_test?timeout=0&{about}")
        page.go("/workers")
        row = page.tab.locator("tbody tr", has_text="host-8-1")
        expect(row).to_contain_text("LIVE")
        expect(row).to_contain_text("0 / 4")
        expect(row).to_contain_text("conductor-worker 9.9")
        expect(row).to_contain_text("slot_test")
        busy = page.tab.locator("tbody tr", has_text="host-2-77").locator("td", has_text="of 20 tasks")
        expect(busy).to_contain_text(re.compile(r"\d m?s / [\d.]+ m?s of 20 tasks"))


class TestFilters:
    def test_workflows_are_filtered_by_input_and_all_that_match_are_terminated_u5_3_u5_4(
        self, page: WatchedPage, samples: Samples
    ) -> None:
        mark = f"many-{page.width}"
        ids = [samples.start("reminder", {"batch": {"mark": mark}}) for _ in range(52)]
        page.go("/workflows")
        field = page.tab.get_by_placeholder("Input, such as order.id=17")
        field.fill(f"batch.mark={mark}")
        field.press("Enter")
        expect(page.tab.get_by_text("50 of 52")).to_be_visible()
        page.tab.get_by_label("Select all on this page").check()
        page.button("Select all 52 that match").click()
        bar = page.tab.get_by_role("group", name="Actions for the selected workflows")
        expect(bar.get_by_role("button")).to_have_text(["Pause 52", "Terminate 52", "Clear selection"])
        page.button("Terminate 52").click()
        page.confirm("Terminate")
        page.says("52 workflows terminated")
        assert {samples.workflow(one)["status"] for one in ids} == {"TERMINATED"}

    def test_a_workflow_is_started_again_with_its_input(self, page: WatchedPage, samples: Samples) -> None:
        mark = f"again-{page.width}"
        samples.start("reminder", {"note": mark}, correlationId=mark)
        page.go(f"/workflows?text={mark}")
        page.tab.get_by_role("button", name=f"Start reminder again with the input of {mark}").click()
        expect(page.tab.get_by_role("dialog")).to_contain_text("with the input of the earlier one")
        page.confirm("Start")
        page.says("Started reminder")
        page.status_is("RUNNING")
        started = samples.workflow(page.tab.url.rpartition("/")[2])
        assert started["input"] == {"note": mark}

    def test_names_reasons_and_inputs_are_shown_as_text(self, page: WatchedPage, samples: Samples) -> None:
        hostile = "<img src=x onerror=alert(1)>"
        samples.call(
            "DELETE", f"/workflow/{samples.start('reminder', {}, correlationId=hostile)}?reason={quote(hostile)}"
        )
        page.go(f"/workflows?text={quote(hostile)}")
        expect(page.tab.locator("tbody tr").first).to_contain_text(hostile)
        assert page.tab.locator("main img").count() == 0

    def test_hostile_names_stay_text_and_inside_the_window(self, page: WatchedPage, samples: Samples) -> None:
        hostile = "<img src=x onerror=alert(1)>"
        for name in (hostile, f"long_{page.width}_" * 40, "طلب_شراء"):
            definition = {"name": name, "version": 1, "description": name, "tasks": [task(name)]}
            samples.call("PUT", "/metadata/workflow", [definition])
            started = samples.start(name, {name: name}, correlationId=name)
            for path in (
                f"/execution/{started}",
                f"/workflowDef/{quote(name, safe='')}",
                f"/workflows?name={quote(name)}",
            ):
                page.go(path)
                expect(page.tab.locator("main")).to_contain_text(name)
                assert page.overflow() <= 0, path
                assert page.tab.locator("main img").count() == 0
            samples.call("DELETE", f"/workflow/{started}")
        for path in ("/queues", "/definitions", "/"):
            page.go(path)
            assert page.overflow() <= 0, path
            assert page.tab.locator("main img").count() == 0

    def test_controls_of_direction_do_not_mirror_a_sentence(self, page: WatchedPage, samples: Samples) -> None:
        started = samples.start("reminder", {"note": "\u202eetihw"}, correlationId="\u202ekcalb")
        page.go(f"/execution/{started}")
        expect(page.tab.locator(".title")).to_contain_text("\\u202ekcalb")
        expect(page.tab.get_by_role("region", name="Input and output")).to_contain_text('"\\u202eetihw"')
        page.button("Terminate").click()
        page.tab.get_by_role("dialog").get_by_label("Reason").fill("\u202eder")
        page.confirm("Terminate")
        page.status_is("TERMINATED")
        assert samples.workflow(started)["reasonForIncompletion"] == "\u202eder"
        page.button("Start again").click()
        note = page.tab.get_by_role("dialog").get_by_role("textbox").first
        assert "\u202eetihw" in note.input_value()  # what can be sent back is not changed

    def test_a_long_name_without_a_space_keeps_every_column_in_sight(self, page: WatchedPage, samples: Samples) -> None:
        name = f"nightly_import_of_{page.width}_" + "x" * 150
        definition = {"name": name, "version": 1, "description": name, "inputParameters": [name], "tasks": [task(name)]}
        samples.call("PUT", "/metadata/workflow", [definition])
        samples.call("POST", "/metadata/taskdefs", [{"name": name, "description": name}])
        samples.schedule(name, "0 0 3 * * MON-FRI", "America/Argentina/ComodRivadavia", name)
        started = samples.start(name, {name: name})
        (taken,) = samples.poll(name, f"worker_{name}")
        samples.report(taken, "FAILED_WITH_TERMINAL_ERROR", reasonForIncompletion=name)
        samples.start(name)
        lists = "[...document.querySelectorAll('.scroll:has(> .list)')]"
        too_wide = f"{lists}.filter(one => one.scrollWidth > one.clientWidth + 1).length"
        for path in (
            *("/failures", "/queues", "/workers", "/definitions", "/schedules", "/audit"),
            *(f"/execution/{started}", f"/workflowDef/{name}", f"/schedules/{name}", f"/taskDef/{name}"),
        ):
            page.go(path)
            expect(page.tab.locator("main")).to_contain_text(name)
            assert page.overflow() <= 0, path
            assert page.tab.evaluate(too_wide) == 0, path
        samples.call("DELETE", f"/scheduler/schedules/{name}")


class TestLive:
    @pytest.mark.parametrize("path", ["/execution/{until}", "/inbox"])
    def test_a_change_is_shown_within_three_seconds_although_answers_are_slow(
        self, path: str, page: WatchedPage, samples: Samples
    ) -> None:
        """The page sees answers that take 100 ms. Timers of 400 ms or more are noted and never run."""
        page.tab.add_init_script("""
            let passed = 0;
            performance.now = () => passed;
            const [send, later] = [fetch, setTimeout];
            fetch = async (path, ...more) => {
                const answer = await send(path, ...more);
                if (/view.(workflow|inbox)/.test(path)) passed += 100;
                return answer;
            };
            setTimeout = (work, ms) => {
                if (ms < 400) return later(work, ms);
                if (ms <= 2000) document.documentElement.dataset.refreshIn = ms;
            };
        """)
        nothing_runs = {**samples.call("GET", "/view/overview"), "running": 0, "waiting": 0, "inHand": 0}
        page.tab.route("**/api/view/overview", lambda route: route.fulfill(json=nothing_runs))
        with page.tab.expect_response(re.compile("/api/view/events")):
            page.go(path.format(**samples.ids))
        expect(page.tab.locator(".live")).to_contain_text("live, updated")
        samples.call("PUT", f"/workflow/{samples.ids['until']}/pause")
        expect(page.tab.locator("html")).to_have_attribute("data-refresh-in", re.compile("."))
        samples.call("PUT", f"/workflow/{samples.ids['until']}/resume")

    def test_a_change_is_shown_at_once_by_the_stream(self, page: WatchedPage, samples: Samples) -> None:
        with page.tab.expect_response(re.compile("/api/view/events")):
            page.go(f"/execution/{samples.ids['until']}")
        expect(page.tab.locator(".live")).to_contain_text("live, updated")
        page.tab.clock.install()  # from here on, no timer runs by itself
        with page.tab.expect_request(re.compile(f"/api/view/workflow/{samples.ids['until']}")):
            samples.call("PUT", f"/workflow/{samples.ids['until']}/pause")
            page.tab.clock.run_for(600)
            page.tab.wait_for_timeout(1000)
            page.tab.clock.run_for(600)
        samples.call("PUT", f"/workflow/{samples.ids['until']}/resume")

    def test_back_returns_to_the_place_in_the_list(self, page: WatchedPage, samples: Samples) -> None:
        page.go("/definitions")
        page.tab.evaluate("scrollTo(0, 400)")
        left = page.tab.evaluate("scrollY")
        assert left > 0
        page.tab.evaluate("document.querySelector('main a[href^=\"/taskDef/\"]').click()")
        expect(page.tab.locator("h1")).not_to_have_text("Definitions")
        page.tab.wait_for_function("scrollY === 0")
        page.tab.go_back()
        expect(page.tab.locator("h1")).to_have_text("Definitions")
        page.tab.wait_for_function("top => scrollY === top", arg=left)

    def test_the_search_is_reached_by_a_key_u5_16(self, page: WatchedPage) -> None:
        page.go("/queues")
        page.tab.keyboard.press("/")
        expect(page.tab.get_by_role("searchbox")).to_be_focused()
        page.tab.keyboard.type("a/b")
        expect(page.tab.get_by_role("searchbox")).to_have_value("a/b")

    def test_an_unknown_address_offers_the_list_and_the_search_u5_14(self, page: WatchedPage) -> None:
        page.expected_statuses = {404}
        page.go("/queues/drive")
        expect(page.tab.locator(".view")).to_contain_text("/queues/drive does not exist")
        page.tab.get_by_role("button", name="search").click()
        expect(page.tab.get_by_role("searchbox")).to_be_focused()
        page.link("Show all workflows").click()
        expect(page.tab).to_have_url(re.compile("/workflows$"))


class TestTheFrame:
    @pytest.mark.parametrize("wide", [1360, 1920])
    def test_the_bar_has_at_most_two_rows(self, wide: int, browser: Browser, guarded: Samples) -> None:
        for name in ("import_invoices_from_the_archive_of_the_warehouse", "x" * 180):
            definition = {"name": name, "version": 1, "tasks": [task(name)]}
            guarded.call("PUT", "/metadata/workflow", [definition])
            guarded.start(name)
        with WatchedPage(browser, guarded.root, wide) as page:
            page.expected_statuses = {401}
            page.go("/")
            page.tab.get_by_role("textbox", name="Key", exact=True).fill("key")
            page.tab.get_by_label("Secret", exact=True).fill("secret")
            page.confirm("Sign in")
            expect(page.tab.locator(".figure", has_text="no workers")).to_be_visible()
            assert page.tab.evaluate("document.getElementById('bar').offsetHeight") < 100
            assert page.overflow() <= 0

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
        page.go("/workflows")
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
