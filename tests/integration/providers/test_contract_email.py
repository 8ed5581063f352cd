"""Channel `email` keeps the contract of providers, with a mail server that plays every scene."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from reminders.domain.template import Template
from reminders.providers import email
from reminders.testing import Call, ProviderContract, Scene, TcpFarSide

WORDS = {
    "subject": "{{ kind }} {{ reference }}",
    "text": "{{ data.name }}: {{ data.order }}, {{ data.phone }}\n.\n",
    "html": "<p>{{ data.name }}</p>",
}
REPLIES = {
    Scene.ACCEPTS: b"250 2.0.0 Ok: queued as 4711ABCD\r\n",
    Scene.IS_BUSY: b"451 4.3.2 later\r\n",
    Scene.TALKS_NONSENSE: b"\0\xff this is not SMTP\r\n",
}


class MailServer(TcpFarSide):
    """Takes messages up to the final dot; what follows is the scene's."""

    def talk(self, connection, number):
        def say(line):
            connection.sendall(line + b"\r\n")

        envelope = b""
        with connection.makefile("rb") as stream:
            say(b"220 far-side")
            while line := stream.readline():
                match line.split()[0].upper():
                    case b"EHLO":
                        say(b"250-far-side\r\n250-8BITMIME\r\n250 AUTH PLAIN")
                    case b"AUTH":
                        refused = self.scene is Scene.REFUSES_OUR_CREDENTIALS
                        say(b"535 5.7.8 no: " + line.split()[-1] if refused else b"235 2.7.0 welcome")
                    case b"DATA":
                        say(b"354 go on")
                        message = b"".join(iter(stream.readline, b".\r\n"))
                        # What stands before it differs between attempts.
                        whole = Call(envelope + message, message[message.index(b"Subject:") :], number)
                        envelope = b""
                        self.calls.append(whole)
                        if not self.decide(connection, message):
                            return
                    case b"QUIT":
                        return
                    case word:
                        envelope += line if word == b"RCPT" else b""
                        say(b"250 2.0.0 Ok")

    def decide(self, connection, message):
        match self.scene:
            case Scene.DOES_NOT_ANSWER:
                self.wait()
            case Scene.DRIPS:
                self.drip(connection, b"2")
            case Scene.NEVER_ENDS:
                self.drip(connection, b"250-and so on\r\n" * 100)
            case Scene.BREAKS_AFTER_READING:
                pass
            case Scene.REFUSES:
                words = message.decode("utf-8", "replace").replace("\r\n", " ").encode()
                connection.sendall(b"550 5.7.1 \0\xff no: " + words[-3000:] + b"\r\n")
                return True
            case scene:
                connection.sendall(REPLIES[scene])
                return True
        return False


class TestEmail(ProviderContract):
    factory = email.provider
    # The greeting and its answers come before what is waited for, on a busy machine too.
    deadline = 2.0
    slack = 3.0
    bad_destinations = (
        "ada",
        "ada@",
        "Ada <ada@example.org>",
        "ada@example.org, eve@example.org",
        "=?utf-8?q?a?=@example.org",
    )
    cannot: ClassVar = {
        Scene.IS_GONE: "no reply says it reliably: mailboxes come back",
        Scene.FAILS: "a reply that is no success says that nothing was accepted (RFC 5321)",
    }  # fmt: skip

    def new_far_side(self):
        return MailServer()

    def environ(self, far_side):
        return {
            "REMINDERS_SMTP_URL": f"smtp://shop:hunter22-password@127.0.0.1:{far_side.port}?starttls=never",
            "REMINDERS_MAIL_FROM": "Shop <noreply@shop.example>",
        }

    def destination(self, far_side):
        return "ada.kit@example.org"

    def other_destination(self, far_side):
        return "eve.kit@example.org"

    def sample(self):
        return {"template": Template(UUID(int=7), "", "payment_due", "email", "", 1, WORDS)}
