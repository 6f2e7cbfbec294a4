"""`MetadataClient` under its name in conductor-python."""

from __future__ import annotations

from conductor.client.metadata_client import MetadataClient


class OrkesMetadataClient(MetadataClient):
    """Task definitions and workflow definitions on a server."""

    def unregister_workflow_def(self, name: str, version: int) -> None:  # its parameter in conductor-python
        """Delete one version of a workflow definition."""
        super().unregister_workflow_def(name, version)
