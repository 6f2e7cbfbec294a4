"""Settings that a program passes as objects.

- `authentication_settings`: the access key.
- `metrics_settings`: the port or file for metrics.
"""
