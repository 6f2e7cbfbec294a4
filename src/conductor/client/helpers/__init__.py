"""Helpers, at the import paths that they have in conductor-python."""
