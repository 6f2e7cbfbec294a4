"""The steps of a workflow, one type per module."""
