from conductor.client.configuration.settings.metrics_settings import MetricsSettings

metrics = MetricsSettings(
    directory='/tmp/metrics',
    file_name='conductor_metrics.txt',
    update_interval=10.0  # Update every 10 seconds
)

handler = TaskHandlerAsyncIO(
    configuration=config,
    metrics_settings=metrics
)
