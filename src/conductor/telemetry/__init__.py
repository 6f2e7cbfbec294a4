"""What both the worker and the coordinator show to the outside. Imports nothing but `conductor.common`.

- `exposition`: metrics in Prometheus' text format.
- `log_format`: log lines as text or as JSON.
- `tracing`: spans with OpenTelemetry.
"""
