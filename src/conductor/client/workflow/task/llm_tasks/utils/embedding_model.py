"""The model that generates embeddings."""

from __future__ import annotations


class EmbeddingModel:
    """A model that generates embeddings, and its provider."""

    def __init__(self, provider: str, model: str) -> None:
        self.provider = provider
        self.model = model
