"""Queues that a server sends events to and takes them from."""
