"""What workers measure and say of themselves: metrics, health, logs. In reading order:

- `worker_metrics`: the table: every metric, its labels, and how the numbers of several processes become one.
- `metric_values`: what a process counts in: counters, gauges, summaries with quantiles, short texts.
- `metric_file`: the memory-mapped file that holds them, so that not even `kill -9` loses a count.
- `metrics_collector`: the listener that counts events of workers into such a file.
- `health`: how a worker says how it is, and how its parent judges whether it is well.
- `process_telemetry`: the two together, as a worker's process uses them.
- `metrics_directory`: where the files of all processes of one handler lie, and what they add up to.
- `prometheus_totals`: the sum as Prometheus reads it.
- `metrics_server`: `/metrics`, `/health` and `/ready` over HTTP.
- `otlp_push`: the sum pushed to an OpenTelemetry collector.
- `metrics_hub`: the parent's side as a whole: gathers, then serves or writes.
- `task_logs`: log records that know their task, and become the task's logs on the server.
"""
