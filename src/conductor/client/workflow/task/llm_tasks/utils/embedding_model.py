"""Which model makes the embeddings."""

from __future__ import annotations


class EmbeddingModel:
    """A model that makes embeddings, and who provides it."""

    def __init__(self, provider: str, model: str) -> None:
        self.provider = provider
        self.model = model
