"""`MetadataClient` under its name in conductor-python."""

from __future__ import annotations

from conductor.client.metadata_client import MetadataClient


class OrkesMetadataClient(MetadataClient):
    """Task definitions and workflow definitions on a server."""

    # The parameter is called `name`, as in conductor-python; `MetadataClient` calls it `workflow_name`.
    def unregister_workflow_def(self, name: str, version: int) -> None:
        """Delete one version of a workflow definition."""
        super().unregister_workflow_def(name, version)
