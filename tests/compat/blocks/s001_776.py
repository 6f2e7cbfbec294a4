from conductor.client.configuration.settings.metrics_settings import MetricsSettings

metrics_settings = MetricsSettings(
    directory="/tmp/conductor-metrics",  # .db files for multiprocess coordination
    update_interval=0.1,                 # Update every 100ms
    http_port=8000                       # Expose metrics via HTTP
)

with TaskHandler(
    configuration=config,
    metrics_settings=metrics_settings
) as handler:
    handler.start_processes()
