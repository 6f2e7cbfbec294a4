"""The coordinator over TLS: the command line, the SDK, the web UI, renewed certificates and errors about the files."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import ssl
from pathlib import Path

import httpx
import pytest

from conductor.cli.command_line import run_command
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.client.orkes_clients import OrkesClients
from conductor.coordinator import Coordinator
from conductor.testing import FakeClock
from tests.unit.cli.program import CLI, Program, url_in
from tests.unit.http.certificates import Authority

pytestmark = pytest.mark.xdist_group("tls")

FLOW = {"name": "flow", "version": 1, "tasks": [{"name": "work", "taskReferenceName": "work"}]}


def test_serve_the_web_ui_and_the_sdk_speak_https_o09(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("server")
    environment = {
        **os.environ,
        "CONDUCTOR_SERVER_TLS_CERT_FILE": str(cert),
        "CONDUCTOR_SERVER_TLS_KEY_FILE": str(key),
        "CONDUCTOR_AUTH_KEY": "root",
        "CONDUCTOR_AUTH_SECRET": "root-secret",
    }
    command = [*CLI, "serve", "--port", "0", "--database", str(tmp_path / "c.db")]
    with Program(command, tmp_path, env=environment) as program:
        url = url_in(program.line_with("Coordinator at https://"))
        root = url.removesuffix("/api")
        program.line_with(f"Web UI: {root}/")
        trust = ssl.create_default_context(cafile=str(authority.file))
        with httpx.Client(base_url=root, verify=trust, timeout=60) as http:
            assert http.get("/ready").status_code == 200
            assert "<html" in http.get("/").text
            token = http.post("/api/token", json={"keyId": "root", "keySecret": "root-secret"}).json()["token"]
            http.headers["X-Authorization"] = token
            http.headers["Origin"] = root  # as the web UI does
            assert http.post("/api/metadata/workflow", json=FLOW).status_code == 200
            large = {"text": "x" * 5_000_000}
            started = http.post("/api/workflow/flow", json=large)
            assert started.status_code == 200
            assert http.get(f"/api/workflow/{started.text}").json()["input"] == large
            assert http.post("/api/workflow/flow", content=b"x" * 11_000_000).status_code in (413, 415)
        with pytest.raises(httpx.ConnectError, match="certificate"):
            httpx.get(f"{root}/ready")
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{root.replace('https', 'http')}/ready")
        monkeypatch.setattr(Configuration, "AUTH_TOKEN", None, raising=False)
        monkeypatch.setenv("CONDUCTOR_AUTH_KEY", "root")
        monkeypatch.setenv("CONDUCTOR_AUTH_SECRET", "root-secret")
        monkeypatch.setenv("CONDUCTOR_TLS_CA_FILE", str(authority.file))
        tasks = OrkesClients(Configuration(url)).get_task_client()
        task = tasks.poll_task("work")
        assert task is not None
        tasks.update_task(TaskResult(task.workflow_instance_id, task.task_id, status=TaskResultStatus.COMPLETED))
        assert run_command(["workflow", "show", started.text, "--url", url]) == 0
        assert "COMPLETED" in capsys.readouterr().out
        program.send(signal.SIGTERM)
        assert program.wait() == 0, program.output
    assert "Traceback" not in program.output


def test_a_renewed_certificate_is_loaded_without_a_restart_o09(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    first, second = Authority(tmp_path, "first"), Authority(tmp_path, "second")
    cert, key = first.issue("server")
    new_cert, new_key = second.issue("server")
    clock = FakeClock()

    def is_trusted(authority: Authority) -> bool:
        try:
            trust = ssl.create_default_context(cafile=str(authority.file))
            return httpx.get(coordinator.url.removesuffix("/api") + "/ready", verify=trust).is_success
        except httpx.ConnectError:
            return False

    with Coordinator(tmp_path / "c.db", clock=clock, tls_cert=cert, tls_key=key) as coordinator:
        assert is_trusted(first)
        shutil.copy(new_cert, cert)  # its key is still the old one
        while "the old one stays in use" not in caplog.text:
            clock.advance(61)
            assert is_trusted(first)
        shutil.copy(new_key, key)
        while not is_trusted(second):
            clock.advance(61)
        assert not is_trusted(first)


def test_unusable_tls_files_are_named_o09(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("server")
    _, other_key = authority.issue("other")
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    missing = tmp_path / "missing.pem"
    locked = tmp_path / "locked.key"
    from cryptography.hazmat.primitives import serialization

    private = serialization.load_pem_private_key(key.read_bytes(), None)
    locked.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"sesame"),
        )
    )
    for files, problem in {
        (missing, key): f"cannot read the TLS certificate {missing}: No such file or directory",
        (cert, missing): f"cannot read the TLS key {missing}: No such file or directory",
        (cert, tmp_path): f"cannot read the TLS key {tmp_path}: Is a directory",
        (cert, other_key): f"the TLS key {other_key} does not belong to the certificate {cert}",
        (text, key): f"the TLS certificate {text} is not a PEM file with a certificate",
        (cert, text): f"the TLS key {text} is not a PEM file with a private key",
        (cert, locked): "the TLS key has a passphrase",
        (cert, None): "TLS needs a certificate and its key, but only tls_cert was given",
        (None, key): "TLS needs a certificate and its key, but only tls_key was given",
    }.items():
        with pytest.raises(ValueError, match=r"TLS") as raised:
            Coordinator(tls_cert=files[0], tls_key=files[1])
        assert problem in str(raised.value)
    assert run_command(["serve", "--tls-cert", str(cert)]) == 2
    assert "--tls-key" in capsys.readouterr().err
