"""Writing what an attempt says: its template, and its body. The same whether it is sent or only noted as a shadow."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from uuid import UUID

from reminders.domain.delivery import Delivery
from reminders.domain.pipeline_faults import PipelineFault
from reminders.domain.template import Template, TemplateFault, lacking
from reminders.pipeline.provider import Provider, template_parts
from reminders.pipeline.tracing import origin

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NotWritten:
    """Why nothing can be sent: the fault is ours."""

    error_class: PipelineFault
    reason: str


@dataclass(frozen=True, slots=True)
class Written:
    """A body, and its hash."""

    body: bytes
    body_hash: bytes


def with_template(
    provider: Provider, delivery: Delivery, template_id: UUID | None, templates: Callable[[UUID], Template | None]
) -> Delivery | NotWritten:
    """The delivery with the version of a template that is meant, if its channel has any. Raises what `templates` raises."""
    if template_id is None:
        parts = template_parts(provider)
        if not parts:
            return delivery
        required = [part for part, word in parts.items() if word == "required"]
        missing = lacking(delivery.tenant_id, delivery.kind, delivery.channel, required)
        logger.error("deliver.no_template key=%s: %s", delivery.delivery_key, missing)
        return NotWritten("no_template", missing)
    template = templates(template_id)
    if template is None:
        return NotWritten("template_gone", f"template version {template_id} is no longer in the ledger")
    return replace(delivery, template=template)


def written(provider: Provider, delivery: Delivery, earlier: bytes | None) -> Written | NotWritten:
    """The body; `earlier` is the hash of the one that an earlier attempt sent, and it must be the same."""
    try:
        body = provider.render(delivery)
        body_hash = hashlib.sha256(body).digest()
    except TemplateFault as error:
        logger.error("deliver.template_fault key=%s: %s", delivery.delivery_key, error)  # noqa: TRY400 - it says where
        return NotWritten("template_fault", str(error))
    except Exception as error:  # noqa: BLE001 (another package's)
        logger.error("deliver.render_failed key=%s: %s", delivery.delivery_key, origin(error))  # noqa: TRY400 (not its text)
        return NotWritten("render_failed", f"{type(error).__name__} while rendering the body")
    if earlier is not None and earlier != body_hash:
        return NotWritten("body_changed", "the body differs from what an earlier attempt sent; nothing was sent")
    return Written(body, body_hash)
