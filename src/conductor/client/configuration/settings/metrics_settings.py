"""Where metrics go: an HTTP port to scrape, or a file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class MetricsSettings:
    """Where a handler puts its workers' metrics. Constructing this touches neither disk nor network.

    Args:
        directory: Where metrics files live. `None` lets the collector choose (a temporary directory of its own).
        file_name: The file written in file mode, inside `directory`. Handlers that share a directory need one each.
        update_interval: Seconds between two writes of that file.
        http_port: Serve `/metrics`, `/health` and `/ready` on this port; `None` is file mode.
        host: The address that port is opened on. Scrapers come from elsewhere, hence every interface by default.
    """

    directory: str | None = None
    file_name: str = "metrics.log"
    update_interval: float = 0.1
    http_port: int | None = None
    host: str = "0.0.0.0"  # noqa: S104

    def __post_init__(self) -> None:
        if self.update_interval <= 0:
            raise ValueError(f"MetricsSettings(update_interval={self.update_interval}): must be more than 0 seconds")
        if self.http_port is not None and not 0 <= self.http_port <= 65535:
            raise ValueError(f"MetricsSettings(http_port={self.http_port}): a port is 0 to 65535 (0 = any free one)")
