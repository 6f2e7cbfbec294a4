"""A worker process that cannot begin, because the script it must load first never comes to its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import logging, threading
import conductor.client.automator.supervisor as supervisor
import conductor.client.automator.worker_process as worker_process
from conductor import Configuration, TaskHandler, worker_task

worker_process.READY_S = supervisor.KILL_AFTER_S = 0.5
told = threading.Event()

class Ear(logging.Handler):
    def emit(self, record):
        if "__main__" in record.getMessage():
            told.set()

logging.basicConfig()
logging.getLogger().addHandler(Ear())

@worker_task(task_definition_name="job")
def job(n: int) -> int:
    return n

handler = TaskHandler(configuration=Configuration("http://127.0.0.1:1/api"), shutdown_grace_seconds=0.1)
handler.start_processes()
told.wait(60)  # for ever, in the process that must load this first
handler.stop_processes()
"""


def test_a_script_that_lasts_at_its_top_level_is_told_what_to_do(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0
    assert "Worker process 'job'" in done.stderr
    assert "move it under `if __name__ == '__main__':`" in done.stderr
