metrics_settings = MetricsSettings(
    directory="/tmp/conductor-metrics",
    file_name="metrics.prom",
    update_interval=1.0,
    http_port=None  # No HTTP server - write to file instead
)
