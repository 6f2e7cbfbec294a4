"""An async worker that returns its task to the server after each page, with a log line. Stop it with Ctrl-C."""

import asyncio
import logging

from conductor import Configuration, TaskDef, TaskHandler, TaskInProgress, get_task_context, worker_task

PAGES = 3


@worker_task(
    task_definition_name="crawl_site",
    thread_count=50,  # up to 50 sites at the same time, on one event loop
    register_task_def=True,
    task_def=TaskDef(retry_count=5, response_timeout_seconds=60, owner_email="examples@example.com"),
)
async def crawl_site(site: str) -> dict[str, object] | TaskInProgress:
    """Handle one page per call: after a second, the server delivers the task again, to this worker or to another."""
    context = get_task_context()
    page = context.get_poll_count()  # 1 at the first execution
    await asyncio.sleep(0.05)  # stands for a download
    context.add_log(f"{site}: page {page} of {PAGES}")
    if page < PAGES:
        return TaskInProgress(callback_after_seconds=1, output={"pages": page})
    return {"pages": page, "done": True}


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    with TaskHandler(configuration=Configuration()) as handler:
        handler.start_processes()
        try:
            handler.join_processes()
        except KeyboardInterrupt:
            print("stopping")
