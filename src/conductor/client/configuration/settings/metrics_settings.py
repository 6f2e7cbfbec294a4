"""Where metrics go: an HTTP port to scrape, or a file."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class MetricsSettings:
    """Where a handler puts its workers' metrics. Constructing this touches neither disk nor network.

    Args:
        directory: Where metrics files live. `None` lets the collector choose (a temporary directory of its own).
        file_name: The file written in file mode, inside `directory`. Handlers that share a directory need one each.
        update_interval: Seconds between two writes of that file.
        http_port: Serve `/metrics`, `/health` and `/ready` on this port; `None` is file mode.
        clean_directory, clean_dead_pids: Taken for programs that were written for conductor-python, and needless: what
            handlers that are no more have left in `directory` is always removed, what living ones write never is.
        host: The address that port is opened on. Scrapers come from elsewhere, hence every interface by default.
    """

    directory: str | None = None
    file_name: str = "metrics.log"
    update_interval: float = 0.1
    http_port: int | None = None
    clean_directory: bool = False
    clean_dead_pids: bool = False
    host: str = field(default="0.0.0.0", kw_only=True)  # noqa: S104

    def __post_init__(self) -> None:
        if self.clean_directory or self.clean_dead_pids:
            logger.info("clean_directory and clean_dead_pids are needless: what ended handlers left is always removed")
        if self.update_interval <= 0:
            raise ValueError(f"MetricsSettings(update_interval={self.update_interval}): must be more than 0 seconds")
        if self.http_port is not None and not 0 <= self.http_port <= 65535:
            raise ValueError(f"MetricsSettings(http_port={self.http_port}): a port is 0 to 65535 (0 = any free one)")
