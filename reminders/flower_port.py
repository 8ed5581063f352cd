"""Where Flower listens: on its port or, if it may, on the next one that is free; and one clear line when it cannot."""

from __future__ import annotations

import errno
import logging
from collections.abc import Mapping
from typing import Any

logger = logging.getLogger(__name__)

PORTS = "REMINDERS_X_FLOWER_PORTS"
"""Names how many ports Flower tries, from its own upwards; without it, its own alone."""
LAST_PORT = 65535


def listen_where_free(environ: Mapping[str, str]) -> None:
    """Prepare the Flower that is starting in this process. It ends with a line that says why if it finds no port."""
    from flower.app import Flower  # noqa: PLC0415 - only one process line has Flower

    ports = int(environ.get(PORTS, "1"))
    listen = Flower.start_http_server

    def start_http_server(flower: Any) -> Any:
        wanted = flower.options.port
        # The choice is made by binding: whoever looked first and bound later could find the port taken by then.
        for port in range(wanted, min(wanted + ports, LAST_PORT + 1)):
            flower.options.port = port
            try:
                found = listen(flower)
            except OSError as error:
                fault = error
                if error.errno != errno.EADDRINUSE:
                    break
            else:
                if port != wanted:
                    logger.warning(
                        "flower.other_port: Port %d is taken: Flower listens on http://127.0.0.1:%d", wanted, port
                    )
                return found
        tried = f"port {wanted}" if port == wanted else f"ports {wanted} to {port}"
        raise SystemExit(f"Flower cannot listen on {tried}: {fault.strerror}. Set PORT to another one")

    Flower.start_http_server = start_http_server
