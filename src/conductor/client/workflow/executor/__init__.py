"""Registering, starting and steering the workflows of a server."""
