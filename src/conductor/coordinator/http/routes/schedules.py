"""Start workflows on a schedule."""

from __future__ import annotations

from typing import Any

from conductor.coordinator.audit import Action
from conductor.coordinator.http.answer import DONE, Answer, as_json
from conductor.coordinator.http.permissions import check_definition
from conductor.coordinator.http.request import ApiRequest
from conductor.coordinator.http.routes.metadata import warning_headers
from conductor.coordinator.http.routes.search import SEARCH_PARAMETERS, read_search
from conductor.coordinator.http.routing import Route
from conductor.coordinator.keys.roles import Access
from conductor.coordinator.request_errors import ApiError, bad_request, invalid
from conductor.coordinator.schedules import schedule_store
from conductor.coordinator.schedules.cron_schedule import UTC_ZONE, Schedule, next_due_times
from conductor.coordinator.schedules.schedule_views import list_schedule_entries, view_cron
from conductor.coordinator.schedules.schedule_warnings import EqualSchedules, find_schedule_warnings
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views import search_query
from conductor.protocol.json_types import JsonObject

#: Maximum number of due times in one answer, as in Conductor.
MAX_NEXT = 5
#: Maximum number of schedules in one bulk request.
MAX_BULK = 1000


async def save(request: ApiRequest) -> Answer:
    """POST /scheduler/schedules: create or replace a schedule."""
    schedule = request.json(Schedule)
    start = schedule.start_workflow_request
    check_definition(request, None if start is None else start.workflow_def)
    await request.offload_if_large(schedule.check)

    def save_and_check(tx: Tx) -> tuple[JsonObject, list[str]]:
        saved = schedule_store.save(tx, schedule)
        request.audit(tx, Action.SAVE_SCHEDULE, str(schedule.name))
        return saved, find_schedule_warnings(tx, schedule)

    saved, warnings = await request.write(save_and_check)
    return as_json(saved, *warning_headers(warnings))


async def view_warnings(request: ApiRequest) -> Answer:
    """GET /view/schedules/warnings: return the warnings about each schedule that has any."""

    def find(tx: Tx) -> JsonObject:
        equal = EqualSchedules.load(tx)
        schedules = (schedule_store.load(tx, name) for name in schedule_store.find_names(tx))
        found = {str(one.name): find_schedule_warnings(tx, one, equal) for one in schedules}
        return {"warnings": {name: warnings for name, warnings in found.items() if warnings}}

    return as_json(await request.reader.read_long(find))


async def view_schedules(request: ApiRequest) -> Answer:
    """GET /view/schedules?name=&workflow=: return schedules in words, with their next due times and warnings."""
    name, workflow = request.query("name"), request.query("workflow")
    return as_json(await request.reader.read_long(lambda tx: list_schedule_entries(tx, name=name, workflow=workflow)))


async def view_cron_expression(request: ApiRequest) -> Answer:
    """GET /view/cron?expression=&zone=UTC: return a cron expression in words, and its next due times."""
    expression, zone = request.required_query("expression"), request.query("zone") or UTC_ZONE
    return as_json(view_cron(expression, zone, request.core.clock.wall_ms()))


async def get_schedule(request: ApiRequest) -> Answer:
    """GET /scheduler/schedules/{name}: return a schedule with its next due time."""
    return as_json(await request.reader.read(lambda tx: schedule_store.get(tx, request.params["name"])))


async def list_schedules(request: ApiRequest) -> Answer:
    """GET /scheduler/schedules?workflowName=: return all schedules, or those of a workflow."""
    workflow = request.query("workflowName")

    def find(tx: Tx) -> list[JsonObject]:
        return [schedule_store.get(tx, name) for name in schedule_store.find_names(tx, workflow=workflow)]

    return as_json(await request.reader.read(find))


async def search(request: ApiRequest) -> Answer:
    """GET /scheduler/schedules/search: return a page of schedules, filtered by workflow, name or paused state."""
    start, size = max(0, request.query_int("start", 0)), request.query_int("size", 100)
    if not 0 <= size <= search_query.MAX_SIZE:
        raise bad_request(f"size must be between 0 and {search_query.MAX_SIZE}, not {size}")
    text = request.query("freeText")
    criteria: JsonObject = {
        "workflow": request.query("workflowName"),
        "name": request.query("scheduleName"),
        "paused": request.query_flag("paused", default=False) if request.query("paused") else None,
        "text": None if text == "*" else text,
    }
    is_descending = _is_descending(request.query("sort"))

    def find(tx: Tx) -> JsonObject:
        names = schedule_store.find_names(tx, **criteria)
        if is_descending:
            names.reverse()
        return {
            "totalHits": len(names),
            "results": [schedule_store.get(tx, name) for name in names[start : start + size]],
        }

    return as_json(await request.reader.read(find))


def _is_descending(sort: str | None) -> bool:
    name, _, direction = (sort or "name").partition(":")
    if name not in ("name", "scheduleName"):
        raise bad_request(f"schedules are sorted by name, not by {name[:100]!r}")
    return direction.upper() == "DESC"


async def remove(request: ApiRequest) -> Answer:
    """DELETE /scheduler/schedules/{name}: delete a schedule; started workflows stay. Unknown names are ignored."""

    def change(tx: Tx) -> None:
        schedule_store.remove(tx, request.params["name"])
        request.audit(tx, Action.DELETE_SCHEDULE, request.params["name"])

    await request.write(change)
    return DONE


async def pause(request: ApiRequest) -> Answer:
    """PUT /scheduler/schedules/{name}/pause?reason=: pause a schedule."""
    reason = request.query("reason")

    def change(tx: Tx) -> None:
        schedule_store.pause(tx, request.params["name"], reason)
        request.audit(tx, Action.PAUSE_SCHEDULE, request.params["name"], reason=reason)

    await request.write(change)
    return DONE


async def resume(request: ApiRequest) -> Answer:
    """PUT /scheduler/schedules/{name}/resume: resume a schedule; 404 if the schedule is not paused."""

    def change(tx: Tx) -> None:
        schedule_store.resume(tx, request.params["name"])
        request.audit(tx, Action.RESUME_SCHEDULE, request.params["name"])

    await request.write(change)
    return DONE


async def pause_many(request: ApiRequest) -> Answer:
    """PUT /scheduler/bulk/pause: pause each schedule of an array; return the names that failed and why."""

    def change(tx: Tx, name: str) -> None:
        schedule_store.pause(tx, name, None)

    return await _change_many(request, "pauseSchedules", Action.PAUSE_SCHEDULE, change)


async def resume_many(request: ApiRequest) -> Answer:
    """PUT /scheduler/bulk/resume: resume each schedule of an array; return the names that failed and why."""
    return await _change_many(request, "resumeSchedules", Action.RESUME_SCHEDULE, schedule_store.resume)


async def _change_many(request: ApiRequest, method: str, action: Action, change: Any) -> Answer:
    names = request.json(list[str])
    if not names:
        raise invalid([(f"{method}.arg0", "Schedule names list cannot be null.")])
    if len(names) > MAX_BULK:
        raise invalid([(f"{method}.arg0", f"Cannot process more than {MAX_BULK} schedules.")])

    def change_all(tx: Tx) -> JsonObject:
        done, failed = [], {}
        for name in names:
            try:
                change(tx, name)
                request.audit(tx, action, name)
            except ApiError as error:  # raised before anything was changed, so nothing needs to be undone
                failed[name] = error.message
            else:
                done.append(name)
        return {"bulkErrorResults": failed, "bulkSuccessfulResults": done}

    return as_json(await request.write(change_all))


async def pause_all(request: ApiRequest) -> Answer:
    """GET /scheduler/admin/pause: pause all schedules; a restart does not resume them."""

    def change(tx: Tx) -> None:
        schedule_store.pause_all(tx)
        request.audit(tx, Action.PAUSE_SCHEDULER, "all schedules")

    await request.write(change)
    return as_json({"status": "done"})


async def resume_all(request: ApiRequest) -> Answer:
    """GET /scheduler/admin/resume: end the pause of all schedules."""

    def change(tx: Tx) -> None:
        schedule_store.resume_all(tx)
        request.audit(tx, Action.RESUME_SCHEDULER, "all schedules")

    await request.write(change)
    return as_json({"status": "done"})


async def requeue(_request: ApiRequest) -> Answer:
    """GET /scheduler/admin/requeue: do nothing; a run and its record are one row, so no record can be missing."""
    return as_json({"sampleIds": [], "recordIds.size": 0})


async def preview_due_times(request: ApiRequest) -> Answer:
    """GET /scheduler/nextFewSchedules?cronExpression=: return the next due times in UTC, at most five."""
    expression = request.required_query("cronExpression")
    count = min(max(0, request.query_int("limit", MAX_NEXT)), MAX_NEXT)
    starts_ms = request.query_int("scheduleStartTime", 0) or None
    ends_ms = request.query_int("scheduleEndTime", 0) or None
    return as_json(next_due_times(expression, request.core.clock.wall_ms(), starts_ms, ends_ms, count))


async def search_runs(request: ApiRequest) -> Answer:
    """GET /scheduler/search/executions: return a page of the runs of schedules."""
    search = read_search(request)
    return as_json(await request.reader.read_long(lambda tx: search_query.search_schedule_runs(tx, search)))


_NAMES = list[str]
_SEARCH = {
    "workflowName": "string",
    "scheduleName": "string",
    "paused": "boolean",
    "freeText": "string",
    "start": "integer",
    "size": "integer",
    "sort": "string",
}
_PREVIEW = {
    "cronExpression": "string",
    "scheduleStartTime": "integer",
    "scheduleEndTime": "integer",
    "limit": "integer",
}

ROUTES = [
    Route("POST", "/api/scheduler/schedules", save, Access.OPERATE, body=Schedule),
    Route("GET", "/api/scheduler/schedules", list_schedules, Access.READ, query={"workflowName": "string"}),
    Route("GET", "/api/scheduler/schedules/search", search, Access.READ, query=_SEARCH),
    Route("GET", "/api/scheduler/schedules/{name}", get_schedule, Access.READ),
    Route("DELETE", "/api/scheduler/schedules/{name}", remove, Access.OPERATE),
    Route("PUT", "/api/scheduler/schedules/{name}/pause", pause, Access.OPERATE, query={"reason": "string"}),
    Route("PUT", "/api/scheduler/schedules/{name}/resume", resume, Access.OPERATE),
    Route("PUT", "/api/scheduler/bulk/pause", pause_many, Access.OPERATE, body=_NAMES),
    Route("PUT", "/api/scheduler/bulk/resume", resume_many, Access.OPERATE, body=_NAMES),
    Route("GET", "/api/scheduler/admin/pause", pause_all, Access.OPERATE, has_side_effects=True),
    Route("GET", "/api/scheduler/admin/resume", resume_all, Access.OPERATE, has_side_effects=True),
    Route("GET", "/api/scheduler/admin/requeue", requeue, Access.OPERATE, has_side_effects=True),
    Route("GET", "/api/scheduler/nextFewSchedules", preview_due_times, Access.READ, query=_PREVIEW),
    Route("GET", "/api/scheduler/search/executions", search_runs, Access.READ, query=SEARCH_PARAMETERS),
    Route("GET", "/api/view/schedules/warnings", view_warnings, Access.READ),
    Route("GET", "/api/view/schedules", view_schedules, Access.READ, query={"name": "string", "workflow": "string"}),
    Route("GET", "/api/view/cron", view_cron_expression, Access.READ, query={"expression": "string", "zone": "string"}),
]
