"""The contract of every broken provider, as pytest collects it. Run by `test_contract_catches.py`, and expected to fail.

A check whose every input a provider has from the good one is left out: the good one's own run has answered it.
"""

from __future__ import annotations

from integration.providers import broken_by_import, broken_calls, broken_forms, sound_providers
from integration.providers.sound_providers import Good
from reminders.testing import ProviderContract


class _Contract(ProviderContract):
    installed = False
    deadline = 0.3
    slack = 1.0
    bad_destinations = ("example.com/hook", "ftp://example.com/")

    def environ(self, far_side):
        return {"REMINDERS_X_FAX_TOKEN": "a-token-for-tests"}


def contract_of(factory):
    namespace = {"factory": factory}
    if factory is not Good:
        if factory.__module__ != broken_by_import.__name__:
            namespace["test_import_brings_no_celery"] = None
        if factory.render is Good.render:
            namespace |= dict.fromkeys(
                ("test_render_does_not_depend_on_the_clock", "test_render_does_not_depend_on_the_hash_seed")
            )
        same_calls = factory.send is Good.send and factory.exchange is Good.exchange
        if same_calls and factory.outcome_of is Good.outcome_of:
            namespace["test_send"] = None
    return type(f"Test{factory.__name__}", (_Contract,), namespace)


for module in (sound_providers, broken_calls, broken_forms, broken_by_import):
    for found in list(vars(module).values()):
        if isinstance(found, type) and issubclass(found, Good) and found.__name__ != "Recast":
            globals()[f"Test{found.__name__}"] = contract_of(found)
del found
