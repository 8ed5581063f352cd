"""Who sent a delivery: its signature, checked over the raw body.

A secret belongs to one tenant and one URL. The tenant is named in the body, which nobody has verified yet, and reading
it first is sound, because the name decides only *which secret must have been used*: a signature that verifies under
the secret of tenant T was made by somebody who knows that secret, over these very bytes, which say T. A forger who
writes another tenant's name thereby chooses a secret that he does not have; one who writes his own has signed as
himself. Nothing else is done with the body before, and the derivation is a keyed hash, the same work for a tenant that
exists and one that does not.

What follows from it: keys are unique per tenant, not over all (see `store`), so that one tenant cannot use up
another's; and the URL must come from our own configuration (see `addresses`), for a sender's choice of the URL would
be his choice of a secret that he may know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from reminders.providers.signing import derive_secret
from reminders.receiver.kit import NotVerified, Verified, verify
from reminders.settings import Secret

_CHANNEL = "webhook"


class Verifier:
    """Checks signatures with the `secrets` given outright and those derived from `master`.

    A secret that was given outright is good for every tenant and URL. `clock` gives Unix time in seconds.
    """

    def __init__(self, *, master: Secret | None, secrets: Sequence[bytes], clock: Callable[[], float]) -> None:
        self._master = None if master is None else master.reveal().encode()
        self._secrets = tuple(secrets)
        self._clock = clock

    def verify(
        self, destinations: Sequence[str], tenant_id: str | None, headers: Mapping[str, str], body: bytes
    ) -> Verified:
        """The request's key, if it is signed for one of `destinations` within five minutes; else raise `NotVerified`."""
        candidates = list(self._secrets)
        if self._master is not None and tenant_id is not None:
            candidates += (derive_secret(self._master, tenant_id, _CHANNEL, url) for url in destinations)
        if not candidates:
            raise NotVerified("the body names no tenant, so there is no secret to check the signature with")
        return verify(body, headers, candidates, now=self._clock())
