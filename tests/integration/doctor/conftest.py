"""One pair of servers for all the doctor's tests, on which everything may be misconfigured."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conftest import open_folder
from integration.doctor.scene import Scene, healthy, servers


@pytest.fixture(scope="package")
def own_servers() -> Iterator[tuple[str, str]]:
    with open_folder() as home, servers(home) as urls:
        yield urls


@pytest.fixture
def scene(own_servers: tuple[str, str]) -> Iterator[Scene]:
    """An installation in which nothing is wrong."""
    with healthy(own_servers) as scene:
        yield scene
