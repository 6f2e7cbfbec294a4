"""Registers, starts and controls the workflows of a server."""
