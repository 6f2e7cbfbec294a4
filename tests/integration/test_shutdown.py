"""Programs end, with real processes and signals: nothing is lost, nothing is left behind, no wait is endless."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from conductor.testing import ConductorStub
from tests.integration.program import PATIENCE_S, Program

#: Both handlers in the same program: `sys.argv` is not needed, the test writes the one it wants.
PROCESSES = """
@worker_task(task_definition_name="job", thread_count=25, idle_poll_timeout=0)
def job(url: str):
    return stand_at_gate(url)

def main():
    with TaskHandler(event_listeners=[Speaker()], shutdown_grace_seconds={grace_s}) as handler:
        handler.start_processes()
        handler.join_processes()
    say("main is over")

if __name__ == "__main__":
    main()
"""

ON_ONE_LOOP = """
@worker_task(task_definition_name="job", thread_count=25, idle_poll_timeout=0)
async def job(url: str):
    return await stand_at_gate_async(url)

async def main():
    async with TaskHandlerAsyncIO(event_listeners=[Speaker()], shutdown_grace_seconds={grace_s}) as handler:
        await handler.wait()
    say("main is over")

if __name__ == "__main__":
    asyncio.run(main())
    os._exit(0)  # the threads that stand at the gate are the test's, not the product's
"""

#: Ways to start processes that are not the default.
OTHER_METHODS = [pytest.param(method, marks=pytest.mark.slow) for method in ("spawn", "fork")]
BOTH = pytest.mark.parametrize("script", [PROCESSES, ON_ONE_LOOP], ids=["processes", "one loop"])


def fill(stub: ConductorStub, count: int) -> list[str]:
    """That many tasks in the hands of the program, all at the gate."""
    stub.hold("workflow")
    return [stub.add_task("job", {"url": f"{stub.url}/workflow/gate"}) for _ in range(count)]


def wait_filled(stub: ConductorStub, count: int) -> None:
    stub.wait_for(lambda: stub.held("workflow") == count, timeout=PATIENCE_S)


class TestSigterm:
    @BOTH
    def test_after_sigterm_running_tasks_are_reported_and_polling_stops(
        self, conductor_stub: ConductorStub, tmp_path: Path, script: str
    ) -> None:
        """P03 and P04: the first SIGTERM drains."""
        ids = fill(conductor_stub, 20)
        with Program(tmp_path, script.replace("{grace_s}", "30"), server=conductor_stub.url) as program:
            wait_filled(conductor_stub, 20)
            conductor_stub.hold("poll")  # so that the last poll before the signal is known
            conductor_stub.wait_for(lambda: conductor_stub.held("poll") == 1)
            polls = len(conductor_stub.polls())
            program.signal(signal.SIGTERM)
            program.wait_for("stopping job")
            conductor_stub.release()
            assert program.wait() == 0
            program.wait_gone()
        assert len(conductor_stub.polls()) == polls
        assert {conductor_stub.task(task_id).status for task_id in ids} == {"COMPLETED"}
        assert "main is over" in program.output
        assert "Traceback" not in program.output

    @BOTH
    def test_a_task_that_does_not_end_in_time_is_handed_back(
        self, conductor_stub: ConductorStub, tmp_path: Path, script: str
    ) -> None:
        ids = fill(conductor_stub, 5)
        with Program(tmp_path, script.replace("{grace_s}", "1"), server=conductor_stub.url) as program:
            wait_filled(conductor_stub, 5)
            program.signal(signal.SIGTERM)
            assert program.wait() == 0
            program.wait_gone()
            handed_back = [conductor_stub.results_for(task_id) for task_id in ids]
        conductor_stub.release()
        for (result,) in handed_back:
            assert result["status"] == "IN_PROGRESS"
            assert result["callbackAfterSeconds"] == 1
            assert result["reasonForIncompletion"] == "worker shutting down"
        assert "stopped job handed_back=5" in program.output

    @BOTH
    def test_the_second_hands_back_and_ends_it_at_once(
        self, conductor_stub: ConductorStub, tmp_path: Path, script: str
    ) -> None:
        """The functions are abandoned, but their tasks do not wait for the response timeout."""
        ids = fill(conductor_stub, 2)
        with Program(tmp_path, script.replace("{grace_s}", "600"), server=conductor_stub.url) as program:
            wait_filled(conductor_stub, 2)
            program.signal(signal.SIGTERM)
            program.wait_for("stopping job")
            time.sleep(0.1)  # signals at once would be one
            program.signal(signal.SIGTERM)
            program.wait()  # ten minutes would be too long for it
            program.wait_gone()
        conductor_stub.release()
        assert {result["taskId"] for result in conductor_stub.results} == set(ids)
        assert {result["status"] for result in conductor_stub.results} == {"IN_PROGRESS"}

    def test_a_sigterm_to_the_whole_process_group_drains_as_well(
        self, conductor_stub: ConductorStub, tmp_path: Path
    ) -> None:
        """As a service manager sends it: to the program, its workers, and the fork server, which must outlive them."""
        ids = fill(conductor_stub, 3)
        with Program(tmp_path, PROCESSES.replace("{grace_s}", "30"), server=conductor_stub.url) as program:
            wait_filled(conductor_stub, 3)
            os.killpg(program.pid, signal.SIGTERM)
            program.wait_for("stopping job")
            assert conductor_stub.held("workflow") == 3, "its workers have work in hand"
            conductor_stub.release()
            assert program.wait() == 0
            program.wait_gone()
        assert {conductor_stub.task(task_id).status for task_id in ids} == {"COMPLETED"}
        assert "exit code" not in program.output

    def test_a_script_that_has_come_to_its_end_drains_too(self, conductor_stub: ConductorStub, tmp_path: Path) -> None:
        """Without `join_processes()` the program's exit waits for the workers: the same as if it had joined them."""
        script = """
            @worker_task(task_definition_name="job", idle_poll_timeout=0)
            def job(url: str):
                return stand_at_gate(url)

            if __name__ == "__main__":
                TaskHandler(event_listeners=[Speaker()]).start_processes()
        """
        (task_id,) = fill(conductor_stub, 1)
        with Program(tmp_path, script, server=conductor_stub.url) as program:
            wait_filled(conductor_stub, 1)
            program.signal(signal.SIGTERM)
            program.wait_for("stopping job")
            conductor_stub.release()
            assert program.wait() == 0
            program.wait_gone()
        assert conductor_stub.task(task_id).status == "COMPLETED"
        assert "Traceback" not in program.output

    @pytest.mark.parametrize("join", ["handler.join_processes()", "pass"], ids=["joined", "left"])
    @pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
    def test_workers_of_a_process_of_a_program_end_with_it(
        self, conductor_stub: ConductorStub, tmp_path: Path, join: str, how: signal.Signals
    ) -> None:
        """A handler in a process of multiprocessing whose parent is dead, so that no process stops it."""
        script = """
            import multiprocessing

            @worker_task(task_definition_name="job", idle_poll_timeout=0)
            def job(url: str):
                return stand_at_gate(url)

            def workers():
                handler = TaskHandler(event_listeners=[Speaker()])
                handler.start_processes()
                {join}

            if __name__ == "__main__":
                middle = multiprocessing.get_context("fork").Process(target=workers)
                middle.start()
                middle.join()
        """.replace("{join}", join)
        (task_id,) = fill(conductor_stub, 1)
        with Program(tmp_path, script, server=conductor_stub.url) as program:
            wait_filled(conductor_stub, 1)
            program.signal(how)
            assert program.wait() == -how
            program.wait_for("stopping job")
            conductor_stub.release()
            program.wait_gone()
        assert conductor_stub.task(task_id).status == "COMPLETED"

    def test_sigterm_drains_both_handlers_of_one_program(self, conductor_stub: ConductorStub, tmp_path: Path) -> None:
        """Workers in processes under a process, others on the main loop: one SIGTERM to the program ends all."""
        script = """
            import multiprocessing

            def compute(url: str):
                return stand_at_gate(url)

            async def ask(url: str):
                return await stand_at_gate_async(url)

            def run_multiprocessing():
                TaskHandler([Worker("job", compute)], event_listeners=[Speaker()]).start_processes()

            async def run_asyncio():
                workers = [Worker("other", ask, idle_poll_timeout=100)]
                async with TaskHandlerAsyncIO(workers, event_listeners=[Speaker()]) as handler:
                    await handler.wait()

            if __name__ == "__main__":
                multiprocessing.get_context("fork").Process(target=run_multiprocessing).start()
                asyncio.run(run_asyncio())
        """
        ids = [*fill(conductor_stub, 1), conductor_stub.add_task("other", {"url": f"{conductor_stub.url}/workflow/g"})]
        with Program(tmp_path, script, server=conductor_stub.url) as program:
            wait_filled(conductor_stub, 2)
            program.signal(signal.SIGTERM)
            program.wait_for("stopping other")
            conductor_stub.release()
            assert program.wait() == 0
            program.wait_gone()
        assert {conductor_stub.task(task_id).status for task_id in ids} == {"COMPLETED"}

    def test_a_process_without_workers_is_left_alone(self, conductor_stub: ConductorStub, tmp_path: Path) -> None:
        """Other children of the program are its own: SIGTERM to the program is not passed on to them."""
        script = """
            import multiprocessing
            from pathlib import Path

            def other_work():
                while not Path("go").exists():
                    time.sleep(0.05)
                print("the other work has ended", flush=True)

            async def ask(url: str):
                return {}

            async def run_asyncio():
                async with TaskHandlerAsyncIO([Worker("other", ask)]) as handler:
                    asyncio.get_running_loop().call_soon(lambda: print("waiting for SIGTERM", flush=True))
                    await handler.wait()
                print("the workers have ended", flush=True)

            if __name__ == "__main__":
                multiprocessing.get_context("fork").Process(target=other_work).start()
                asyncio.run(run_asyncio())
        """
        with Program(
            tmp_path, script.replace('"go"', repr(str(tmp_path / "go"))), server=conductor_stub.url
        ) as program:
            program.wait_for("waiting for SIGTERM")
            program.signal(signal.SIGTERM)
            program.wait_for("the workers have ended")
            (tmp_path / "go").touch()
            assert program.wait() == 0
        assert "the other work has ended" in program.output

    def test_after_sigterm_the_children_drain_by_themselves_without_join(
        self, conductor_stub: ConductorStub, tmp_path: Path
    ) -> None:
        """P04: SIGTERM kills a program that does not wait for its workers; no orphan goes on polling."""
        script = PROCESSES.replace("{grace_s}", "30").replace("handler.join_processes()", "time.sleep(600)")
        (task_id,) = fill(conductor_stub, 1)
        with Program(tmp_path, script, server=conductor_stub.url) as program:
            wait_filled(conductor_stub, 1)
            program.signal(signal.SIGTERM)
            assert program.wait() == -signal.SIGTERM
            program.wait_for("stopping job")
            conductor_stub.release()
            program.wait_gone()
        assert conductor_stub.task(task_id).status == "COMPLETED"

    @pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
    @BOTH
    def test_sigterm_is_caught_so_that_process_1_of_a_container_obeys_it(
        self, conductor_stub: ConductorStub, tmp_path: Path, script: str
    ) -> None:
        """P04: process 1 ignores every signal that it does not catch."""
        with Program(tmp_path, script.replace("{grace_s}", "5"), server=conductor_stub.url) as program:
            program.wait_for("started job")
            conductor_stub.wait_for(conductor_stub.polls)
            program.wait_until(lambda: self._catches(program.pid, signal.SIGTERM))
            program.signal(signal.SIGTERM)
            assert program.wait() == 0

    def _catches(self, pid: int, number: int) -> bool:
        caught = Path(f"/proc/{pid}/status").read_text().partition("SigCgt:")[2].split()[0]
        return bool(int(caught, 16) & (1 << (number - 1)))

    def test_a_sigterm_to_every_process_drains_as_well(self, conductor_stub: ConductorStub, tmp_path: Path) -> None:
        ids = fill(conductor_stub, 3)
        with Program(tmp_path, PROCESSES.replace("{grace_s}", "30"), server=conductor_stub.url) as program:
            wait_filled(conductor_stub, 3)
            for process in program.group():
                if "multiprocessing" not in " ".join(process.cmdline()) or process.ppid() != program.pid:
                    process.send_signal(signal.SIGTERM)
            program.wait_for("stopping job")
            conductor_stub.release()
            assert program.wait() == 0
            program.wait_gone()
        assert {conductor_stub.task(task_id).status for task_id in ids} == {"COMPLETED"}

    def test_sigterm_ends_a_program_whose_worker_dies_again_and_again(
        self, conductor_stub: ConductorStub, tmp_path: Path
    ) -> None:
        script = """
        class Dying(Worker):
            def __setstate__(self, state):
                os._exit(3)

        if __name__ == "__main__":
            handler = TaskHandler([Dying("job", stand_at_gate)])
            handler.start_processes()
            handler.join_processes()
        """
        with Program(tmp_path, script, server=conductor_stub.url) as program:
            program.wait_for("it starts again", times=2)
            program.signal(signal.SIGTERM)
            assert program.wait() == 0
            program.wait_gone()

    def test_sigterm_ends_a_program_whose_event_loop_is_blocked_for_good(
        self, conductor_stub: ConductorStub, tmp_path: Path
    ) -> None:
        """A child that cannot hear is killed after the grace, also while the program only waits for its workers."""
        script = """
        from conductor.client.automator import supervisor
        supervisor.KILL_AFTER_S = 1.0

        async def block(url: str):
            time.sleep(600)

        if __name__ == "__main__":
            handler = TaskHandler([Worker("job", block)], shutdown_grace_seconds=0.5, event_listeners=[Speaker()])
            handler.start_processes()
            handler.join_processes()
        """
        conductor_stub.add_task("job", {"url": ""})
        with Program(tmp_path, script, server=conductor_stub.url) as program:
            conductor_stub.wait_for(
                lambda: conductor_stub.polls() and not conductor_stub.held("poll"), timeout=PATIENCE_S
            )
            program.wait_for("started job")
            program.signal(signal.SIGTERM)
            program.wait()
            program.wait_gone()


class TestCtrlC:
    JOIN = """
    @worker_task(task_definition_name="job", thread_count=5, idle_poll_timeout=0)
    def job(url: str):
        return stand_at_gate(url)

    def main():
        handler = TaskHandler(event_listeners=[Speaker()])
        handler.start_processes()
        try:
            handler.join_processes()
        except KeyboardInterrupt:
            say("interrupted")
            handler.stop_processes()
            say("main is over")

    if __name__ == "__main__":
        main()
    """
    SLEEP = JOIN.replace("handler.join_processes()", "while True: time.sleep(1)")

    @pytest.mark.parametrize("script", [JOIN, SLEEP], ids=["join", "sleep loop"])
    def test_ctrl_c_reaches_the_program_and_its_stop_drains(
        self, conductor_stub: ConductorStub, tmp_path: Path, script: str
    ) -> None:
        ids = fill(conductor_stub, 3)
        with Program(tmp_path, script, server=conductor_stub.url) as program:
            wait_filled(conductor_stub, 3)
            program.interrupt()
            program.wait_for("interrupted")
            program.wait_for("stopping job")
            conductor_stub.release()
            assert program.wait() == 0
            program.wait_gone()
        assert {conductor_stub.task(task_id).status for task_id in ids} == {"COMPLETED"}
        assert "main is over" in program.output

    def test_ctrl_c_out_of_a_with_block_drains_too(self, conductor_stub: ConductorStub, tmp_path: Path) -> None:
        ids = fill(conductor_stub, 3)
        with Program(tmp_path, PROCESSES.replace("{grace_s}", "30"), server=conductor_stub.url) as program:
            wait_filled(conductor_stub, 3)
            program.interrupt()
            program.wait_for("stopping job")
            conductor_stub.release()
            assert program.wait() != 0  # the KeyboardInterrupt goes on
            program.wait_gone()
        assert {conductor_stub.task(task_id).status for task_id in ids} == {"COMPLETED"}

    def test_ctrl_c_on_one_loop_drains(self, conductor_stub: ConductorStub, tmp_path: Path) -> None:
        ids = fill(conductor_stub, 3)
        with Program(tmp_path, ON_ONE_LOOP.replace("{grace_s}", "30"), server=conductor_stub.url) as program:
            wait_filled(conductor_stub, 3)
            program.interrupt()
            program.wait_for("stopping job")
            conductor_stub.release()
            program.wait()
            program.wait_gone()
        assert {conductor_stub.task(task_id).status for task_id in ids} == {"COMPLETED"}
        assert "KeyboardInterrupt" in program.output


class TestTheUsersOwnHandler:
    SCRIPT = """
    @worker_task(task_definition_name="job", thread_count=5, idle_poll_timeout=0)
    def job(url: str):
        return stand_at_gate(url)

    if __name__ == "__main__":
        handler = TaskHandler(event_listeners=[Speaker()])

        def signal_handler(signum, frame):
            say("Received shutdown signal")
            handler.stop_processes()
            say("drained")
            sys.exit(0)

        signal.signal(signal.SIGTERM, signal_handler)
        signal.signal(signal.SIGINT, signal_handler)
        handler.start_processes()
        {wait}
    """

    @pytest.mark.parametrize("wait", ["handler.join_processes()", "while True: time.sleep(1)"], ids=["join", "sleep"])
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_signal_handler_of_the_user_may_stop_the_workers(
        self, conductor_stub: ConductorStub, tmp_path: Path, number: int, wait: str
    ) -> None:
        """`join_processes` borrows SIGTERM, so with it the program just ends; every other way the handler is called."""
        ids = fill(conductor_stub, 3)
        with Program(tmp_path, self.SCRIPT.replace("{wait}", wait), server=conductor_stub.url) as program:
            wait_filled(conductor_stub, 3)
            program.signal(number)
            program.wait_for("stopping job")
            conductor_stub.release()
            assert program.wait() == 0
            program.wait_gone()
        assert {conductor_stub.task(task_id).status for task_id in ids} == {"COMPLETED"}
        borrowed = "join" in wait and number == signal.SIGTERM
        assert ("drained" in program.output) is not borrowed


class TestKillingAChild:
    SCRIPT = """
    @worker_task(task_definition_name="job", idle_poll_timeout=0)
    def job(url: str):
        return stand_at_gate(url)

    @worker_task(task_definition_name="other", idle_poll_timeout=0)
    def other(url: str):
        return stand_at_gate(url)

    if __name__ == "__main__":
        options = {"event_listeners": [Speaker()], "start_method": "{start_method}"}
        with TaskHandler(workers=[{workers}], **options) as handler:
            handler.start_processes()
            handler.join_processes()
    """

    @pytest.mark.parametrize("start_method", ["forkserver", *OTHER_METHODS])
    @pytest.mark.parametrize("workers", ["job", "job, other"], ids=["the only one", "one of two"])
    def test_a_killed_child_is_started_again_and_the_others_do_not_notice(
        self, conductor_stub: ConductorStub, tmp_path: Path, workers: str, start_method: str
    ) -> None:
        """P16: also when it is the only one."""
        script = self.SCRIPT.replace("{workers}", workers).replace("{start_method}", start_method)
        with Program(tmp_path, script, server=conductor_stub.url) as program:
            first = {name: self._pid_of(conductor_stub, name) for name in workers.split(", ")}
            os.kill(first["job"], signal.SIGKILL)
            program.wait_for("started job", times=2)  # the poll of the dead one is over by then
            second = {name: self._pid_of(conductor_stub, name) for name in workers.split(", ")}
            assert second["job"] != first["job"]
            assert second.get("other") == first.get("other")
            program.signal(signal.SIGTERM)
            assert program.wait() == 0
            program.wait_gone()
        assert "ended with exit code -9; it starts again" in program.output

    def _pid_of(self, stub: ConductorStub, name: str) -> int:
        task_id = stub.add_task(name, {"url": f"{stub.url}/workflow/open"})
        stub.wait_for(lambda: stub.results_for(task_id), timeout=PATIENCE_S)
        pid: int = stub.results_for(task_id)[0]["outputData"]["pid"]
        return pid


class TestKillingTheParent:
    @pytest.mark.parametrize("start_method", ["forkserver", *OTHER_METHODS])
    def test_the_children_drain_and_end(self, conductor_stub: ConductorStub, tmp_path: Path, start_method: str) -> None:
        """P04: whatever becomes of the parent, no child goes on polling."""
        script = f'''
        @worker_task(task_definition_name="job", idle_poll_timeout=0)
        def job(url: str):
            return stand_at_gate(url)

        @worker_task(task_definition_name="other", idle_poll_timeout=0)
        def other(url: str):
            return stand_at_gate(url)

        if __name__ == "__main__":
            with TaskHandler(start_method="{start_method}", event_listeners=[Speaker()]) as handler:
                handler.start_processes()
                handler.join_processes()
        '''
        (task_id,) = fill(conductor_stub, 1)
        with Program(tmp_path, script, server=conductor_stub.url) as program:
            wait_filled(conductor_stub, 1)
            program.wait_for("started other")
            program.signal(signal.SIGKILL)
            program.wait()
            program.wait_for("stopping job")
            program.wait_for("stopping other")
            conductor_stub.release()
            program.wait_gone()
        assert conductor_stub.task(task_id).status == "COMPLETED"


class TestQuiet:
    @BOTH
    def test_sigusr1_takes_no_new_tasks_finishes_and_stays(
        self, conductor_stub: ConductorStub, tmp_path: Path, script: str
    ) -> None:
        ids = fill(conductor_stub, 2)
        with Program(tmp_path, script.replace("{grace_s}", "30"), server=conductor_stub.url) as program:
            wait_filled(conductor_stub, 2)
            conductor_stub.hold("poll")
            conductor_stub.wait_for(lambda: conductor_stub.held("poll") == 1)
            polls = len(conductor_stub.polls())
            program.signal(signal.SIGUSR1)
            program.wait_for("SIGUSR1 received: polling stops")
            conductor_stub.release("workflow")
            conductor_stub.wait_results(2)  # running tasks are finished
            conductor_stub.release("poll")  # and the poll under way was the last
            with pytest.raises(TimeoutError):  # a poll that does not come has no event: a while is all there is
                conductor_stub.wait_for(lambda: len(conductor_stub.polls()) > polls, timeout=0.5)
            assert program.group(), "it stays"
            program.signal(signal.SIGTERM)
            assert program.wait() == 0
            program.wait_gone()
        assert {conductor_stub.task(task_id).status for task_id in ids} == {"COMPLETED"}


class TestScripts:
    @pytest.mark.parametrize(
        "start_method",
        ["None", *[pytest.param(f"'{one}'", marks=pytest.mark.slow) for one in ("forkserver", "spawn", "fork")]],
    )
    def test_scripts_without_a_main_guard_work_and_never_fork_without_end(
        self, conductor_stub: ConductorStub, tmp_path: Path, start_method: str
    ) -> None:
        """P27: while a child loads the script, the script's handlers do nothing."""
        script = f"""
        @worker_task(task_definition_name="job", idle_poll_timeout=0)
        def job(url: str):
            return stand_at_gate(url)

        with TaskHandler(configuration=Configuration(), start_method={start_method}) as handler:
            handler.start_processes()
            handler.join_processes()
        say(f"script is over in {{os.getpid()}}")
        """
        task_id = conductor_stub.add_task("job", {"url": f"{conductor_stub.url}/workflow/open"})
        with Program(tmp_path, script, server=conductor_stub.url) as program:
            conductor_stub.wait_for(lambda: conductor_stub.results_for(task_id), timeout=PATIENCE_S)
            workers = [p for p in program.group() if p.pid == conductor_stub.results[0]["outputData"]["pid"]]
            assert len(workers) == 1
            assert len(program.group()) <= 4  # the program, its worker, and Python's two helpers
            program.signal(signal.SIGTERM)
            assert program.wait() == 0
            program.wait_gone()
        assert f"script is over in {program.pid}" in program.output

    def test_a_script_without_a_main_guard_works_on_one_loop(
        self, conductor_stub: ConductorStub, tmp_path: Path
    ) -> None:
        script = """
        @worker_task(task_definition_name="job", idle_poll_timeout=0)
        async def job():
            return {}

        async def main():
            async with TaskHandlerAsyncIO(configuration=Configuration()) as handler:
                await handler.wait()

        asyncio.run(main())
        """
        conductor_stub.add_task("job")
        with Program(tmp_path, script, server=conductor_stub.url) as program:
            conductor_stub.wait_results(1, timeout=PATIENCE_S)
            program.signal(signal.SIGTERM)
            assert program.wait() == 0

    def test_a_worker_that_cannot_travel_is_named(self, conductor_stub: ConductorStub, tmp_path: Path) -> None:
        """P27: no bare PicklingError, but which worker and what to do."""
        script = """
        if __name__ == "__main__":
            handler = TaskHandler([Worker("my_task", lambda: 1)], start_method="spawn")
            try:
                handler.start_processes()
            except TypeError as error:
                say(f"refused: {error}")
        """
        with Program(tmp_path, script, server=conductor_stub.url) as program:
            assert program.wait() == 0
            program.wait_gone()
        assert "refused: worker 'my_task' cannot be sent to its process" in program.output
        assert "at the top of a module" in program.output

    def test_a_worker_that_cannot_travel_can_be_forked(self, conductor_stub: ConductorStub, tmp_path: Path) -> None:
        script = """
        if __name__ == "__main__":
            handler = TaskHandler([Worker("my_task", lambda: {"a": 1}, idle_poll_timeout=0)], start_method="fork")
            handler.start_processes()
            handler.join_processes()
        """
        conductor_stub.add_task("my_task")
        with Program(tmp_path, script, server=conductor_stub.url) as program:
            conductor_stub.wait_results(1, timeout=PATIENCE_S)
            program.signal(signal.SIGTERM)
            assert program.wait() == 0
            program.wait_gone()

    def test_a_handler_that_was_never_started_does_not_hold_up_the_end(
        self, conductor_stub: ConductorStub, tmp_path: Path
    ) -> None:
        """P27: constructors have no side effects that an exit must wait for."""
        script = """
        if __name__ == "__main__":
            one = TaskHandler([Worker("job", stand_at_gate)])
            two = TaskHandlerAsyncIO([Worker("job", stand_at_gate)])
            say("constructed")
        """
        with Program(tmp_path, script, server=conductor_stub.url) as program:
            assert program.wait() == 0
            program.wait_gone()
        assert not conductor_stub.requests

    def test_a_handler_inside_a_process_beside_one_on_a_loop(
        self, conductor_stub: ConductorStub, tmp_path: Path
    ) -> None:
        """Both kinds in one program: processes started from a process of the user's, coroutines in the parent."""
        script = """
        from multiprocessing import Process

        @worker_task(task_definition_name="cpu", idle_poll_timeout=0)
        def cpu(url: str):
            return stand_at_gate(url)

        @worker_task(task_definition_name="io", idle_poll_timeout=0)
        async def io():
            return {"pid": os.getpid()}

        def run_cpu():
            TaskHandler(workers=[cpu], configuration=Configuration()).start_processes()

        async def main():
            async with TaskHandlerAsyncIO(workers=[io], configuration=Configuration()) as handler:
                await handler.wait()

        if __name__ == "__main__":
            process = Process(target=run_cpu)
            process.start()
            asyncio.run(main())
            process.terminate()
            process.join()
            say("main is over")
        """
        cpu = conductor_stub.add_task("cpu", {"url": f"{conductor_stub.url}/workflow/open"})
        io = conductor_stub.add_task("io")
        with Program(tmp_path, script, server=conductor_stub.url) as program:
            conductor_stub.wait_for(lambda: len(conductor_stub.results) == 2, timeout=PATIENCE_S)
            assert conductor_stub.results_for(io)[0]["outputData"]["pid"] == program.pid
            assert conductor_stub.results_for(cpu)[0]["outputData"]["pid"] != program.pid
            program.signal(signal.SIGTERM)
            assert program.wait() == 0
            program.wait_gone()
        assert "main is over" in program.output


class TestTheCommandLine:
    def test_the_load_test_command_runs_for_a_time_and_says_what_was_done(
        self, conductor_stub: ConductorStub, tmp_path: Path
    ) -> None:
        (tmp_path / "my_workers.py").write_text(
            "from conductor.client.worker.worker_task import worker_task\n"
            "@worker_task(task_definition_name='job', idle_poll_timeout=0)\n"
            "async def job():\n"
            "    return {}\n"
        )
        conductor_stub.add_task("job")
        command = [
            sys.executable,
            "-m",
            "conductor.client.automator.task_handler_asyncio",
            "--duration=5",
            "my_workers",
        ]
        env = {**os.environ, "CONDUCTOR_SERVER_URL": conductor_stub.url, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
        assert "1 tasks completed, 0 failed" in done.stdout


def test_psutil_sees_our_own_process() -> None:
    """The tests above rely on it to say that nothing is left."""
    assert os.getpid() in {process.pid for process in psutil.process_iter()}
