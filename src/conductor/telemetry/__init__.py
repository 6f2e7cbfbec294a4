"""Metrics, log lines and traces, for workers and the coordinator. Imports nothing but `conductor.common`.

- `exposition`: metrics in the text format of Prometheus.
- `log_format`: log lines as text or as JSON.
- `tracing`: spans with OpenTelemetry.
"""
