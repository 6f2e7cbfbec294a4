"""Helpers under their paths in conductor-python."""
