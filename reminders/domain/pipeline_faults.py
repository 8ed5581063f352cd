"""Faults of our own that end an attempt before its provider is called: nothing was sent, and no body is kept of it."""

from __future__ import annotations

from typing import Literal, get_args

PipelineFault = Literal["body_changed", "no_template", "render_failed", "template_fault", "template_gone"]
PIPELINE_FAULTS: tuple[PipelineFault, ...] = get_args(PipelineFault)
"""The error classes that their attempts are recorded under."""
