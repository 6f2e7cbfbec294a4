"""The images of the Dockerfile, built and run, by a builder that needs no engine.

A registry of images may be out of reach where this runs, so the base image is a local one under the same name: Debian
with its Python of the same release. Whatever comes after that line is what the Dockerfile says.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pytest

from conductor.coordinator.replication.litestream import find_program
from conductor.testing.ports import free_port
from tests.unit.cli.program import Program, url_in
from tests.unit.recipes.recipes import DEPLOY, ROOT, healthcheck, replaced, tool
from tests.unit.recipes.test_recipes_run import CREDENTIALS, READY, order

#: Debian's release that has the Python of the Dockerfile, and what the base image has of it.
SUITE, PACKAGES = "trixie", "ca-certificates,python3,python3-venv"
#: The user of the images.
USER = 10001
BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")


class Builder:
    """Builds images, and runs commands in them as they say, in a directory of its own."""

    def __init__(self, place: Path) -> None:
        self._place = place
        # The driver vfs mounts nothing, so the directory can be removed even if a container was killed. buildah ignores
        # the variable STORAGE_DRIVER if --root is given.
        storage = ["--storage-driver", "vfs", "--root", str(place / "images"), "--runroot", str(place / "run")]
        self._command = [tool("buildah"), *storage]
        self.env = {"BUILDAH_ISOLATION": "chroot"}  # no engine and no namespaces, so root on any machine can run it

    def words(self, *words: str) -> list[str]:
        return [*self._command, *words]

    def do(self, *words: str) -> str:
        """Run a command of the builder. Return its output."""
        command = self.words(*words)
        ran = subprocess.run(
            command, env={**os.environ, **self.env}, cwd=ROOT, capture_output=True, text=True, timeout=600
        )
        assert ran.returncode == 0, f"{' '.join(command)}: {ran.stdout[-2000:]}{ran.stderr[-4000:]}"
        return ran.stdout.strip()

    def make_base(self, name: str) -> None:
        """An image of Debian and its Python, under the name that the Dockerfile asks for."""
        root = self._place / "base"
        site = subprocess.run(
            [tool("apt-get"), "indextargets", "--format", "$(SITE)", "Created-By: Packages"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        made = subprocess.run(
            [tool("debootstrap"), "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root), *site[:1]],
            capture_output=True,
            text=True,
            timeout=900,
        )
        if made.returncode:
            pytest.skip(f"no base image can be made here: {(made.stdout + made.stderr).strip()[-300:]}")
        (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        shutil.copy(BUNDLE, root / "etc/ssl/certs")  # the certificate authorities of this machine
        container = self.do("from", "scratch")
        self.do("copy", "--quiet", container, str(root), "/")
        self.do("config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", container)
        self.do("commit", "--quiet", container, name)
        self.do("rm", container)
        shutil.rmtree(root)

    def make_litestream(self, name: str) -> None:
        """An image with the Litestream of this machine, under the name that the Dockerfile asks for."""
        container = self.do("from", "scratch")
        self.do("copy", "--quiet", "--chmod", "755", container, find_program(), "/usr/local/bin/litestream")
        self.do("commit", "--quiet", container, name)
        self.do("rm", container)

    def build(self, target: str) -> dict[str, Any]:
        """Build a target of the Dockerfile; what the image says about itself."""
        ignored = ["--ignorefile", str(DEPLOY / "Dockerfile.dockerignore")]
        recipe = ["--file", str(DEPLOY / "Dockerfile"), "--target", target, "--tag", target]
        self.do("build", "--pull=never", "--network", "host", "--format", "docker", *ignored, *recipe, ".")
        found: dict[str, Any] = json.loads(self.do("inspect", "--type", "image", target))["Docker"]["config"]
        return found

    def run(self, container: str, words: list[str], **env: str) -> list[str]:
        """The command line that runs this in a container."""
        given = [word for name, value in env.items() for word in ("--env", f"{name}={value}")]
        return self.words("run", "--network", "host", *given, "--", container, *words)


@contextmanager
def running(builder: Builder, place: Path, container: str, words: list[str], **env: str) -> Iterator[Program]:
    """A command in a container. The builder passes no signal on, so it is ended by what an engine would send to it."""
    with Program(builder.run(container, words, **env), place, builder.env) as program:
        try:
            yield program
        finally:
            for process in _inside(program, words):
                process.send_signal(signal.SIGKILL)


def _inside(program: Program, words: list[str]) -> list[psutil.Process]:
    """The process of the command itself, among those that hold its container."""
    try:
        family = psutil.Process(program.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [one for one in family if one.cmdline()[-len(words) + 1 :] == words[1:] and "python" in one.cmdline()[0]]


def stop(program: Program, words: list[str]) -> int:
    """Stop it as an engine does; its exit status."""
    (process,) = _inside(program, words)
    assert process.uids().real == USER, "it runs as nobody's root"
    process.send_signal(signal.SIGTERM)
    return program.wait()


def checked(builder: Builder, container: str, stage: str, port: str) -> bool:
    """Run the health check of the image inside it, with the port of this run."""
    python, flag, program = healthcheck(stage)
    own = re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{port}", program)
    words = builder.run(container, [python, flag, own])
    return subprocess.run(words, env={**os.environ, **builder.env}, capture_output=True, timeout=200).returncode == 0


@pytest.fixture
def disk() -> Iterator[Path]:
    """A place on disk: the directories of other tests may be in memory, and images are large."""
    with TemporaryDirectory(dir="/var/tmp") as place:
        yield Path(place)


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.skipif(os.geteuid() != 0, reason="images are built by root here")
def test_the_images_are_built_and_run_an_order_as_nobody(tmp_path: Path, disk: Path) -> None:
    tool("debootstrap")
    builder = Builder(disk)
    recipe = (DEPLOY / "Dockerfile").read_text()
    release, litestream = re.findall(r"^ARG (?:PYTHON|LITESTREAM)=(\S+)$", recipe, re.MULTILINE)
    builder.make_base(f"localhost/python:{release}-slim")
    builder.make_litestream(f"localhost/litestream/litestream:{litestream}")
    said = {target: builder.build(target) for target in ("coordinator", "workers")}
    containers = {target: builder.do("from", "--pull-never", target) for target in said}
    found = builder.run(containers["workers"], ["python", "--version"])
    version = subprocess.run(found, env={**os.environ, **builder.env}, capture_output=True, text=True, timeout=200)
    assert version.stdout.startswith(f"Python {release}."), (
        "the base image stands for the one that the Dockerfile names"
    )
    found = builder.run(containers["coordinator"], ["litestream", "version"])
    version = subprocess.run(found, env={**os.environ, **builder.env}, capture_output=True, text=True, timeout=200)
    assert version.stdout.startswith(f"{litestream}."), "serve --replicate finds Litestream in the image"
    for target, config in said.items():
        assert config["User"] == f"{USER}:{USER}"
        assert config["Healthcheck"]["Test"][1:] == healthcheck(target)
    ports = {target: str(free_port()) for target in said}
    server = [*said["coordinator"]["Entrypoint"], *said["coordinator"]["Cmd"]]
    server = replaced(server, {"--port": ports["coordinator"], "--host": "127.0.0.1"})
    workers = [*said["workers"]["Entrypoint"], *said["workers"]["Cmd"]]
    workers = replaced(workers, {"--metrics-port": ports["workers"]})
    with running(builder, tmp_path, containers["coordinator"], server, **CREDENTIALS) as coordinator:
        url = url_in(coordinator.line_with(READY))
        assert checked(builder, containers["coordinator"], "coordinator", ports["coordinator"])
        assert not checked(builder, containers["workers"], "workers", ports["workers"])
        env = {**CREDENTIALS, "CONDUCTOR_SERVER_URL": url}
        with running(builder, tmp_path, containers["workers"], workers, **env) as program:
            program.line_with("ready")
            assert checked(builder, containers["workers"], "workers", ports["workers"])
            assert order(tmp_path, env) == {"receipt": "R-3998"}
            assert stop(program, workers) == 0
        assert stop(coordinator, server) == 0
    for container in containers.values():
        builder.do("rm", container)
