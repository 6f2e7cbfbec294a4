"""The recipes of deploy/ run: their commands as processes, their probes, and nginx in front of a real coordinator."""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from conductor.testing.ports import free_port
from tests.unit.cli.program import CLI, DEADLINE_S, Program, url_in
from tests.unit.http.certificates import Authority
from tests.unit.recipes.recipes import DEPLOY, exec_start, healthcheck, replaced, setting, tool, workloads

CREDENTIALS = {"CONDUCTOR_AUTH_KEY": "workers", "CONDUCTOR_AUTH_SECRET": "a secret of the test"}
COORDINATOR, WORKERS, BACKUP = (
    DEPLOY / "systemd" / f"conductor-{name}.service" for name in ("coordinator", "workers", "backup")
)
READY = "Coordinator at "


def status(url: str, context: ssl.SSLContext | None = None, **headers: str) -> int:
    try:
        with urlopen(Request(url, headers=headers), timeout=60, context=context) as answer:
            return int(answer.status)
    except HTTPError as error:
        with error:
            return error.code


def healthy(stage: str, port: str) -> bool:
    """Run the health check of the image, with the port of this run."""
    python, flag, program = healthcheck(stage)
    own = re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{port}", program)
    assert python == "python"
    return subprocess.run([sys.executable, flag, own], capture_output=True, timeout=DEADLINE_S).returncode == 0


def probe(workload: str, name: str) -> str:
    """The path that a probe of a pod asks for."""
    (container,) = workloads()[workload]["containers"]
    path: str = container[name]["httpGet"]["path"]
    return path


@contextmanager
def coordinator(place: Path, *more: str, **env: str) -> Iterator[tuple[Program, str]]:
    """The coordinator as its unit starts it, on a free port."""
    words = replaced(exec_start(COORDINATOR)[1:], {"--port": "0", "--database": str(place / "coordinator.db")})
    with Program([*CLI, *words, *more], place, {**CREDENTIALS, **env}) as server:
        yield server, url_in(server.line_with(READY))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_units_run_an_order_and_stop_in_time_and_the_probes_say_so(tmp_path: Path) -> None:
    port = str(free_port())
    words = replaced(
        exec_start(WORKERS)[1:],
        {"--metrics-port": port, "--journal-dir": str(tmp_path / "journal")},
    )
    assert not healthy("workers", port)
    with coordinator(tmp_path) as (server, url):
        base = url.removesuffix("/api")
        assert healthy("coordinator", base.rpartition(":")[2])
        for name in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert status(base + probe("conductor-coordinator", name)) == 200, name
        env = {**CREDENTIALS, "CONDUCTOR_SERVER_URL": url}
        with Program([*CLI, *words], DEPLOY / "app", {**env, "PYTHONDONTWRITEBYTECODE": "1"}) as workers:
            workers.line_with("ready")
            assert healthy("workers", port)
            for name in ("readinessProbe", "livenessProbe"):
                assert status(f"http://127.0.0.1:{port}{probe('conductor-workers', name)}") == 200, name
            assert order(tmp_path, env) == {"receipt": "R-3998"}
            saved = replaced(exec_start(BACKUP)[1:], {"--database": str(tmp_path / "coordinator.db")})
            saved[1] = str(tmp_path / "copy.db")
            subprocess.run([*CLI, *saved], cwd=tmp_path, check=True, timeout=DEADLINE_S, capture_output=True)
            assert setting(WORKERS, "KillMode") == "mixed"
            workers.send(signal.SIGTERM)  # the program alone, as KillMode=mixed does
            assert workers.wait() == 0
        server.send(signal.SIGTERM)
        assert server.wait() == 0
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600


def order(place: Path, env: dict[str, str]) -> Any:
    """Register the workflow of deploy/app and run it once."""
    program = (
        "import json, sys; from conductor import OrkesClients;"
        "from conductor.client.http.models import StartWorkflowRequest;"
        "request = StartWorkflowRequest(name='order', input={'item': 'lamp', 'pieces': 2});"
        "done = OrkesClients().get_workflow_client().execute_workflow(request, wait_for_seconds=60);"
        "print(json.dumps(done.output))"
    )
    for command in ([*CLI, "workflow", "register", str(DEPLOY / "app" / "orders.py")], [sys.executable, "-c", program]):
        ran = subprocess.run(
            command,
            cwd=place,
            env={**os.environ, **env, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


# -- a proxy ------------------------------------------------------------------------------------------------------


@contextmanager
def nginx(place: Path, authority: Authority, upstream: str) -> Iterator[str]:
    """nginx with the recipe's own file in front of this coordinator; the address of it."""
    port = free_port()
    certificate, key = authority.issue("nginx")
    recipe = (DEPLOY / "nginx" / "conductor.conf").read_text()
    for printed, here in {
        "server 127.0.0.1:8080;": f"server {upstream};",
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "server_name conductor.example;": "server_name localhost;",
        "/etc/nginx/tls/conductor.pem": str(certificate),
        "/etc/nginx/tls/conductor.key": str(key),
    }.items():
        assert printed in recipe
        recipe = recipe.replace(printed, here)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = " ".join(f"{kind}_temp_path {place}/{kind};" for kind in kinds)
    (place / "nginx.conf").write_text(
        f"pid {place}/nginx.pid; daemon off; error_log stderr warn;\n"
        f"events {{}}\nhttp {{ access_log off; {temporary}\n{recipe}\n}}\n"
    )
    command = [tool("nginx"), "-p", str(place), "-e", "stderr", "-c", str(place / "nginx.conf")]
    subprocess.run([*command, "-t"], check=True, timeout=DEADLINE_S, capture_output=True)
    with Program(command, place):
        url = f"https://localhost:{port}"
        until_answered(url, trusting(authority))
        yield url


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.file))


def until_answered(url: str, context: ssl.SSLContext) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            assert status(f"{url}/health", context) == 200
        except URLError:
            assert time.monotonic() < deadline, f"nobody answers at {url}"
            time.sleep(0.05)
        else:
            return


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_demo_runs_through_nginx_and_tls(tmp_path: Path) -> None:
    tool("nginx")
    authority = Authority(tmp_path)
    with coordinator(tmp_path) as (_, plain), nginx(tmp_path, authority, plain.split("/")[2]) as url:
        env = {**CREDENTIALS, "CONDUCTOR_SERVER_URL": f"{url}/api", "CONDUCTOR_TLS_CA_FILE": str(authority.file)}
        ran = subprocess.run(
            [*CLI, "demo", "--workflows", "60"],
            cwd=tmp_path,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        own, foreign = (page_post(url, trusting(authority), origin) for origin in (url, "https://elsewhere.example"))
        assert (own, foreign) == (401, 403), "the page's own origin is asked for a token, another one is refused"


def page_post(url: str, context: ssl.SSLContext, origin: str) -> int:
    """Return the answer to a web page of this origin that starts a workflow."""
    headers = {"Origin": origin, "Content-Type": "application/json"}
    request = Request(f"{url}/api/workflow/order", b"{}", headers, method="POST")
    try:
        with urlopen(request, timeout=60, context=context) as answer:
            return int(answer.status)
    except HTTPError as error:
        with error:
            return error.code
