"""The version of the package. Nothing else defines it."""

__version__ = "1.0.0"
