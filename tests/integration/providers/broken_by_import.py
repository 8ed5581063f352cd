"""A provider whose import brings Celery along."""

import celery

from integration.providers.sound_providers import Good


class ImportsCelery(Good):
    celery = celery.VERSION
