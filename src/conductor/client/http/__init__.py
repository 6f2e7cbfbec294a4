"""Calls to a server: endpoints, models, errors, connections."""
