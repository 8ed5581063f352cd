"""Keys that tests encrypt secrets with."""

import base64

from reminders.ledger.keyring import Keyring
from reminders.settings import Secret

KEY, OLDER_KEY, LOST_KEY = (
    base64.urlsafe_b64encode(bytes([number]) * 32).decode("ascii") for number in (0x41, 0x42, 0x43)
)
KEYRING = Keyring([Secret(KEY), Secret(OLDER_KEY)])
