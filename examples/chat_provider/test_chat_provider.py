"""The contract of providers, run against ours."""

import chat_provider
from reminders.testing import ProviderContract


class TestChat(ProviderContract):
    factory = chat_provider.ChatProvider
    bad_destinations = ("general", "ftp://chat.example/hooks/1", "https://user:password@chat.example/")

    def environ(self, far_side):
        return {"REMINDERS_X_CHAT_TOKEN": "a-token-for-tests"}
