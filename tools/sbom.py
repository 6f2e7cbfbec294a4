"""A software bill of materials, CycloneDX 1.6: `python tools/sbom.py > conductor-worker.cdx.json`.

It names what `pip install 'conductor-worker[all]'` brings, as it is installed beside this interpreter: each package
with its version, licence and what it needs. The same environment and SOURCE_DATE_EPOCH give the same bytes.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from datetime import UTC, datetime
from importlib.metadata import Distribution, distribution
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PACKAGE = "conductor-worker"
EXTRA = "all"


def needs(name: str, extras: frozenset[str]) -> dict[str, frozenset[str]]:
    """The packages that a package with these extras asks for on this machine, each with the extras it is asked for."""
    found: dict[str, frozenset[str]] = {}
    for line in distribution(name).requires or []:
        wanted = Requirement(line)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in ["", *extras]):
            other = canonicalize_name(wanted.name)
            found[other] = found.get(other, frozenset()) | frozenset(wanted.extras)
    return found


def closure(name: str, extras: frozenset[str]) -> dict[str, set[str]]:
    """Every package that is reached from this one, and what each of them needs."""
    graph: dict[str, set[str]] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    todo = [(name, extras)]
    while todo:
        package, wanted = todo.pop()
        if (package, wanted) in seen:
            continue
        seen.add((package, wanted))
        asked = needs(package, wanted)
        graph.setdefault(package, set()).update(set(asked) - {package})
        todo += asked.items()
    return graph


def reference(found: Distribution) -> str:
    """The package URL, which is its name inside the document too."""
    return f"pkg:pypi/{canonicalize_name(found.name)}@{found.version}"


def said(found: Distribution, field: str) -> str:
    """Return a field of a package's metadata, or nothing."""
    return str((found.metadata.get_all(field) or [""])[0])


def licence(found: Distribution) -> list[dict[str, Any]]:
    """The licence as the package says it: an SPDX expression, the name in a classifier, a line of its own, or none."""
    if expression := said(found, "License-Expression"):
        return [{"expression": expression}]
    classifiers = [line for line in found.metadata.get_all("Classifier") or [] if line.startswith("License :: ")]
    names = [line.rpartition(" :: ")[2] for line in classifiers] or [said(found, "License")]
    return [{"license": {"name": name}} for name in names if name and "\n" not in name]


def component(found: Distribution, kind: str = "library") -> dict[str, Any]:
    """One package."""
    told = {"licenses": licence(found), "description": said(found, "Summary")}
    return {
        "type": kind,
        "bom-ref": reference(found),
        "name": canonicalize_name(found.name),
        "version": found.version,
        "purl": reference(found),
        **{name: value for name, value in told.items() if value},
    }


def bill() -> dict[str, Any]:
    """The document."""
    graph = closure(PACKAGE, frozenset({EXTRA}))
    packages = {name: distribution(name) for name in sorted(graph)}
    own = packages.pop(PACKAGE)
    body = {
        "components": [component(found) for found in packages.values()],
        "dependencies": [
            {
                "ref": reference(distribution(name)),
                "dependsOn": sorted(reference(distribution(other)) for other in needed),
            }
            for name, needed in sorted(graph.items())
        ],
    }
    made = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH") or datetime.now(UTC).timestamp()), UTC)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([reference(own), body]))}",
        "version": 1,
        "metadata": {"timestamp": made.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": component(own, "application")},
        **body,
    }


if __name__ == "__main__":
    json.dump(bill(), sys.stdout, indent=2)
    sys.stdout.write("\n")
