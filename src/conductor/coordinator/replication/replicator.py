"""Runs Litestream while the coordinator runs: numbers the replica, starts the program, and reads its state.

A thread supervises the program and starts it again if it ends. The program ends with the coordinator, also after a
`kill -9`: a shell script waits at a pipe from the coordinator, and stops the program when the pipe closes.

Each run of the program begins a new replica. While the program does not run, SQLite may begin its write-ahead log
again. Litestream 0.5 does not always notice that: it then continues the old replica without the pages that it missed,
and that replica cannot be restored.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from conductor.common.machine import try_lock
from conductor.common.text import escape
from conductor.coordinator.replication.litestream import (
    RETENTION,
    SNAPSHOT_INTERVAL,
    LitestreamFailed,
    find_program,
    has_files,
    write_configuration,
)
from conductor.coordinator.replication.replica_url import ReplicaUrl
from conductor.coordinator.store.database_file import MEMORY, NO_ROOM, StoreError, StoreRefused
from conductor.coordinator.store.statements import REPLICA_PLACE, SET_REPLICA_PLACE
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.store.writer import Store
from conductor.protocol.views import ReplicationState

logger = logging.getLogger(__name__)

#: How often changes are copied by default, to a directory and to other storage. Each copy to an object store is a
#: request that costs money.
FILE_INTERVAL_S = 0.25
REMOTE_INTERVAL_S = 1.0
#: The pause before Litestream is restarted after it has ended. It doubles with each restart, up to the maximum.
FIRST_BACKOFF_S = 0.5
MAX_BACKOFF_S = 30.0
#: If Litestream has run this long, the next pause is `FIRST_BACKOFF_S` again.
HEALTHY_RUN_S = 60.0
#: When the coordinator stops, Litestream has this many seconds to copy the last changes.
STOP_TIMEOUT_S = 8
#: Timeout of a request to Litestream for its state.
ANSWER_TIMEOUT_S = 1.0
#: An error that repeats is logged again only after this time.
LOG_AGAIN_S = 60.0
#: The search for an unused replica number stops after this many numbers.
MAX_NUMBERS_TRIED = 1000
#: The path of a Unix socket may have 104 bytes on macOS and 108 on Linux.
MAX_SOCKET_PATH_BYTES = 100
#: The name of the database with this suffix is the directory with the configuration and working files of Litestream.
DIRECTORY_SUFFIX = "-replication"
#: Files in that directory. Litestream holds the lock while it runs.
CONFIGURATION, LOCK = "litestream.yml", "lock"
#: A file in the directory of a replica. If it is missing, the copied changes are missing, too. Litestream does not
#: notice this, so the coordinator looks for the file.
MARKER = "coordinator"

#: A shell script that runs a command. When its standard input is closed, it terminates the command, and kills it after
#: `STOP_TIMEOUT_S`.
_KEEPER = f"""
exec 3<&0 </dev/null
"$@" 3<&- &
child=$!
{{
  read -r _ <&3
  kill -TERM "$child"
  n=0
  while [ $n -lt {STOP_TIMEOUT_S} ] && kill -0 "$child"; do sleep 1; n=$((n + 1)); done
  kill -KILL "$child"
}} >/dev/null 2>&1 &
watcher=$!
exec 3<&-
wait "$child"
status=$?
kill -KILL "$watcher" 2>/dev/null
exit "$status"
"""


class Replicator:
    """Keeps a replica of the database of one coordinator.

    Args:
        database: The file of the database.
        url: The URL below which the replicas are stored.
        interval_s: How often changes are copied; None chooses by the kind of storage.

    Raises:
        StoreRefused: Litestream is not installed, or the database is in memory.
    """

    def __init__(self, database: str, url: ReplicaUrl, interval_s: float | None = None) -> None:
        if database == MEMORY:
            raise StoreRefused("a database in memory cannot be replicated; name a file with --database")
        self._program = find_program()
        self._database = Path(database).absolute()
        self._url = url
        self._interval_s = interval_s or (REMOTE_INTERVAL_S if url.directory is None else FILE_INTERVAL_S)
        self._directory = self._database.with_name(self._database.name + DIRECTORY_SUFFIX)
        self._socket_directory: str | None = None
        self._store: Store | None = None
        self._replica: ReplicaUrl | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._process_lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._restarts = 0
        #: The last error, its time, and the time of the last copy before it.
        self._error: tuple[str, float, float | None] | None = None
        self._last_sync_s: float | None = None
        self._bytes = 0
        self._bytes_of_earlier_runs = 0
        self._port = 0
        self._started_s = time.time()
        self._sync_request: socket.socket | None = None

    @property
    def shown_url(self) -> str:
        """The URL of the replica without its password. Before its number is chosen, the URL of all replicas."""
        return (self._replica or self._url).shown

    def start(self, store: Store) -> None:
        """Choose the number of the new replica and start Litestream. A thread retries if the storage cannot be reached.

        Raises:
            StoreRefused: The URL holds a replica of another database, or cannot be written.
        """
        self._store = store
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StoreRefused(f"cannot create {self._directory}: {error.strerror}") from error
        self._try_to_choose_replica()
        store.make_room_for_litestream(self._ask_for_sync)
        self._thread = threading.Thread(target=self._supervise, name="coordinator-replication", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Let Litestream copy the last changes and end. Call this after the database is closed."""
        self._stopping.set()
        with self._process_lock:
            process = self._process
            if process is not None and process.stdin is not None:
                process.stdin.close()
        if self._thread is not None:
            self._thread.join(STOP_TIMEOUT_S + 5)
        if process is not None and process.poll() is None:
            _kill(process)
        if self._sync_request is not None:
            self._sync_request.close()
        if self._socket_directory is not None:
            shutil.rmtree(self._socket_directory, ignore_errors=True)

    # -- the number of the replica --------------------------------------------------------------------------------

    def _try_to_choose_replica(self) -> bool:
        try:
            self._replica = self._choose_replica()
        except LitestreamFailed as error:
            self._note_error(f"the replica cannot be reached: {error}")
            return False
        logger.info("Replication: url=%s", self._replica.shown)
        return True

    def _choose_replica(self) -> ReplicaUrl:
        """Return the URL of the next unused replica number, and record the number in the database.

        A database without a recorded replica at this URL is refused if the URL already has one, so two databases
        cannot share a URL. A database that was restored from this URL contains the record and may use it again.
        """
        assert self._store is not None  # noqa: S101 (set by `start`)
        last = self._store.call(lambda tx: tx.first(REPLICA_PLACE, self._url.digest))
        number = int(last or 0) + 1
        # Use the last number again if it has no replica. Otherwise a coordinator that ends again and again before its
        # first copy would leave a long gap of unused numbers, in which `restore` stops its search.
        if last is not None and self._is_unused(self._url.with_number(int(last))):
            number = int(last)
        if last is None and (self._url.list_numbers() or has_files(self._program, self._url.with_number(number))):
            raise StoreRefused(
                f"{self._url.shown} already has replicas of another database, and two databases must not share a URL; "
                "choose another URL, or restore that replica first"
            )
        tried = 0
        while has_files(self._program, self._url.with_number(number)):
            number, tried = number + 1, tried + 1
            if tried > MAX_NUMBERS_TRIED:
                raise StoreRefused(f"{self._url.shown} has too many replicas; choose another URL")
        replica = self._url.with_number(number)
        if tried and self._has_copies(self._url.with_number(number - 1)):
            logger.warning(
                "Another coordinator of this database has made a replica: url=%s; if it has taken over, stop this one "
                "and remove its replica %s, because `restore` uses the highest number",
                self._url.with_number(number - 1).shown,
                replica.shown,
            )
        self._claim(replica)
        digest = self._url.digest

        def record(tx: Tx) -> None:
            tx.run(SET_REPLICA_PLACE, digest, number)

        self._store.call(record)
        return replica

    def _is_unused(self, replica: ReplicaUrl) -> bool:
        """Return whether the last start on this machine chose this number, and ended before its first copy.

        The configuration next to the database names the replica of the last start, and the lock shows whether its
        Litestream is still running. A copy of the database on another machine has no configuration and must not use
        the number, because the coordinator that recorded it might still be running.
        """
        try:
            configuration = json.loads((self._directory / CONFIGURATION).read_text())
            if not replica.configuration.items() <= configuration["dbs"][0]["replica"].items():
                return False
            lock = os.open(self._directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except (OSError, ValueError, LookupError, AttributeError):
            return False
        try:
            return try_lock(lock) and not has_files(self._program, replica)
        finally:
            os.close(lock)

    def _has_copies(self, replica: ReplicaUrl) -> bool:
        """Return whether Litestream has written to a replica, or may have written to it."""
        directory = replica.directory
        try:
            if directory is not None:
                return any(entry.name != MARKER for entry in directory.iterdir())
            return has_files(self._program, replica)
        except (OSError, LitestreamFailed):
            return True

    def _claim(self, replica: ReplicaUrl) -> None:
        """Create the directory of a replica on a file system. mkdir is atomic, so two coordinators never share one."""
        directory = replica.directory
        if directory is None:
            return
        try:
            directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.mkdir(mode=0o700)
            try:
                (directory / MARKER).touch(mode=0o600)
            except OSError:
                directory.rmdir()  # otherwise each retry would leave an empty directory
                raise
        except OSError as error:
            if error.errno in NO_ROOM:  # the coordinator works without its replica, and tries again
                raise LitestreamFailed(f"cannot create {directory}: {error.strerror}") from error
            raise StoreRefused(
                f"cannot create {directory} for the replica: {error.strerror}; choose a directory that can be written"
            ) from error

    # -- the program ----------------------------------------------------------------------------------------------

    def _supervise(self) -> None:
        backoff_s, has_number = FIRST_BACKOFF_S, self._replica is not None
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                if has_number or self._try_to_choose_replica():
                    has_number = True
                    self._run_program()
                    # The next run begins a new replica, unless this run has copied nothing: a program that ends at
                    # once must not use up many numbers.
                    has_number = self._replica is not None and not self._has_copies(self._replica)
            except (StoreError, OSError) as error:
                self._note_error(str(error))
            except Exception as error:  # otherwise the thread would end, and the replication with it
                logger.exception("Replication failed")
                self._note_error(f"internal error: {error}")
            if time.monotonic() - began > HEALTHY_RUN_S:
                backoff_s = FIRST_BACKOFF_S
            if self._stopping.wait(backoff_s):
                return
            backoff_s = min(MAX_BACKOFF_S, backoff_s * 2)
            self._restarts += 1

    def _run_program(self) -> None:
        assert self._replica is not None  # noqa: S101 (checked by the caller)
        lock = self._lock_directory()
        if lock is None:
            return
        try:
            # Remove Litestream's working files, which describe the last replica, so that the new one begins with a
            # snapshot.
            shutil.rmtree(self._directory / "state", ignore_errors=True)
            configuration = self._directory / CONFIGURATION
            write_configuration(configuration, self._make_configuration(self._replica))
            command = [self._program, "replicate", "-no-expand-env", "-config", str(configuration)]
            with self._process_lock:
                if self._stopping.is_set():
                    return
                self._process = process = subprocess.Popen(
                    ["/bin/sh", "-c", _KEEPER, "litestream-keeper", *command],
                    cwd=self._directory,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="backslashreplace",
                    start_new_session=True,  # so that Ctrl-C reaches only the coordinator
                    pass_fds=[lock],
                )
        finally:
            os.close(lock)  # the child has a copy, and holds the lock until it has ended
        assert process.stdin is not None  # noqa: S101 (a pipe)
        assert process.stderr is not None  # noqa: S101 (a pipe)
        with process.stderr as lines:
            self._read_log(lines)
        status = process.wait()
        with self._process_lock:
            process.stdin.close()  # `stop` may have closed it already
        self._bytes_of_earlier_runs, self._bytes = self._bytes_of_earlier_runs + self._bytes, 0
        if not self._stopping.is_set():
            self._note_error(f"Litestream ended with status {status} and is restarted")

    def _lock_directory(self) -> int | None:
        """Lock the directory once the earlier coordinator's Litestream has ended. Return None if `stop` comes first."""
        lock = os.open(self._directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        while not try_lock(lock):
            if self._stopping.wait(0.1):
                os.close(lock)
                return None
        return lock

    def _make_configuration(self, replica: ReplicaUrl) -> dict[str, Any]:
        self._port = _find_free_port()
        control = self._control_path()
        Path(control).unlink(missing_ok=True)
        interval = f"{max(1, round(self._interval_s * 1000))}ms"
        return {
            "logging": {"level": "warn", "type": "json", "stderr": True},
            "addr": f"127.0.0.1:{self._port}",
            "socket": {"enabled": True, "path": control, "permissions": 0o600},
            "snapshot": {"interval": SNAPSHOT_INTERVAL, "retention": RETENTION},
            "shutdown-sync-timeout": f"{STOP_TIMEOUT_S - 2}s",
            "dbs": [
                {
                    "path": str(self._database),
                    "meta-path": str(self._directory / "state"),
                    "monitor-interval": interval,
                    "replica": {**replica.configuration, "sync-interval": interval},
                }
            ],
        }

    def _control_path(self) -> str:
        path = str(self._directory / "control.sock")
        if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES:
            return path
        if self._socket_directory is None:
            self._socket_directory = tempfile.mkdtemp(prefix="conductor-litestream-")
        return f"{self._socket_directory}/control.sock"

    def _read_log(self, lines: IO[str]) -> None:
        """Log the messages of the program until it ends."""
        for line in lines:
            try:
                entry = json.loads(line)
                level, text = str(entry.get("level")), str(entry.get("msg"))
                if entry.get("error"):
                    text += f": {entry['error']}"
            except (ValueError, AttributeError):
                level, text = "ERROR", line.strip()
            if self._stopping.is_set():
                logger.debug("Litestream during shutdown: %s", escape(self._url.hide_secrets(text)))
            elif level == "ERROR":
                self._note_error(text)
            else:
                logger.warning("Litestream: %s", escape(self._url.hide_secrets(text)))

    def _note_error(self, text: str) -> None:
        text, now = escape(self._url.hide_secrets(text))[:500], time.time()
        before = self._error
        if before is None or before[0] != text or now - before[1] > LOG_AGAIN_S:
            logger.error("Replication failed: url=%s error=%r", self._url.shown, text)
        self._read_last_sync()
        self._error = text, now, self._last_sync_s

    # -- requests to the program ----------------------------------------------------------------------------------

    def read_state(self) -> ReplicationState:
        """Return the state of the replication. Blocks for up to `ANSWER_TIMEOUT_S` per request to the program."""
        process = self._process
        is_running = process is not None and process.poll() is None
        if is_running:
            self._read_last_sync()
            self._read_bytes()
        error, last_sync_s = self._error, self._last_sync_s
        # A copy after the error clears the error. The wall clock can be set back, so a changed time of the last copy
        # means a newer copy, even if the time is earlier.
        if error is not None and last_sync_s != error[2]:
            self._error = error = None
        return ReplicationState(
            url=self.shown_url,
            running=is_running,
            lag_s=max(0.0, time.time() - (last_sync_s or self._started_s)),
            last_sync_ms=None if last_sync_s is None else int(last_sync_s * 1000),
            last_error=self._find_lost_directory() or (error[0] if error else None),
            bytes=self._bytes_of_earlier_runs + self._bytes,
            restarts=self._restarts,
        )

    def _find_lost_directory(self) -> str | None:
        """Return a message if the directory of the replica was removed, renamed or unmounted."""
        directory = None if self._replica is None else self._replica.directory
        if directory is None or (directory / MARKER).exists():
            return None
        return (
            f"the files of the replica in {directory} have disappeared, so it cannot be restored; "
            "restore them, or restart the coordinator, which begins a new replica"
        )

    def _read_last_sync(self) -> None:
        control = UnixConnection(self._control_path())
        with suppress(OSError, http.client.HTTPException, ValueError, KeyError, IndexError), closing(control):
            control.request("GET", "/list")
            (database,) = json.loads(control.getresponse().read())["databases"]
            if at := database.get("last_sync_at"):
                self._last_sync_s = datetime.fromisoformat(at[:26].rstrip("Z") + "+00:00").timestamp()

    def _read_bytes(self) -> None:
        metrics = http.client.HTTPConnection("127.0.0.1", self._port, timeout=ANSWER_TIMEOUT_S)
        with suppress(OSError, http.client.HTTPException, ValueError), closing(metrics):
            metrics.request("GET", "/metrics")
            for line in metrics.getresponse().read().decode().splitlines():
                if line.startswith("litestream_total_wal_bytes{"):
                    self._bytes = int(float(line.rpartition(" ")[2]))

    def _ask_for_sync(self) -> None:
        """Ask Litestream to copy the changes now. Called by the writer thread, which does not wait for the answer.

        The connection stays open until the next request, because Litestream stops copying when its client disconnects.
        """
        request = socket.socket(socket.AF_UNIX)
        request.settimeout(0.05)
        body = json.dumps({"path": str(self._database)}).encode()
        try:
            request.connect(self._control_path())
            request.sendall(
                b"POST /sync HTTP/1.1\r\nHost: litestream\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
            )
        except OSError:  # Litestream is not running; `_supervise` restarts it
            request.close()
            return
        before, self._sync_request = self._sync_request, request
        if before is not None:
            before.close()


class UnixConnection(http.client.HTTPConnection):
    """An HTTP connection over a Unix socket."""

    def __init__(self, path: str, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        super().__init__("litestream", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _kill(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
