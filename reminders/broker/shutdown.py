"""One flag for the whole worker process: whoever waits long looks at it."""

from __future__ import annotations

from threading import Event

shutting_down = Event()
"""Set once the worker was told to stop. Work that is claimed is finished; nothing new is begun, no waiting goes on."""
