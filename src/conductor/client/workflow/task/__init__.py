"""The steps of a workflow, one kind per module."""
