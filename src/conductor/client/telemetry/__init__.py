"""Metrics, health and logs of workers.

The modules in reading order:

- `worker_metrics`: the declarations of all metrics.
- `metric_values`: counters, gauges, summaries with quantiles, and short texts.
- `metric_file`: the memory-mapped file that holds the values of a process, so that `kill -9` loses no count.
- `metrics_collector`: the listener that counts the events of workers in such a file.
- `health`: the status that a worker records, and how the parent process judges its health.
- `process_telemetry`: collector and health of one worker process.
- `metrics_directory`: the directory with the files of all processes of a handler, and their totals.
- `prometheus_totals`: the totals as series of Prometheus.
- `metrics_server`: `/metrics`, `/health` and `/ready` over HTTP.
- `otlp_push`: the totals pushed to an OpenTelemetry collector.
- `metrics_hub`: the parent process: reads the totals and serves or writes them.
- `task_logs`: log records that carry the ids of their task, and log records that become task logs on the server.
"""
