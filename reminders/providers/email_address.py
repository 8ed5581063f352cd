"""An e-mail destination, taken apart once: what is checked when it is scheduled is what is sent to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from reminders.domain.errors import InvalidInput, NotHere
from reminders.domain.header_text import header_fault

LONGEST = 254
"""Characters of an address (RFC 5321 section 4.5.3.1.3, less its angle brackets)."""


@dataclass(frozen=True, slots=True)
class Address:
    """As it is written in envelope and header: the domain in A-labels. `ascii` is false where SMTPUTF8 is needed."""

    text: str
    ascii: bool


@lru_cache(maxsize=4096)
def parse_address(destination: str, *, allow_private: bool) -> Address:
    """Take one bare address apart. Raises `InvalidInput("destination", ...)`, whose text does not repeat it.

    Accepted is exactly one mailbox: no display name, list, comment, quoted part or address literal. A
    domain that is never public (`.local`, `.test` and so on, RFC 6761) is refused; with `allow_private` (development)
    `.test` is taken, and without it the error is `NotHere`.
    """
    from email_validator import EmailNotValidError, validate_email  # noqa: PLC0415 (60 ms, for those who send mail)

    if not isinstance(destination, str) or not destination:
        raise InvalidInput("destination", "is empty; give one e-mail address")
    if len(destination) > LONGEST:
        raise InvalidInput("destination", f"has {len(destination)} characters; an address has at most {LONGEST}")
    # Any `=?` in an address: part of an encoded word is all that a lenient reader may need.
    fault = header_fault(destination) or ("contains =?, which begins an encoded word" if "=?" in destination else None)
    if fault is not None:
        raise InvalidInput("destination", fault)
    try:
        found = validate_email(destination, strict=True, check_deliverability=False, test_environment=allow_private)
    except EmailNotValidError:
        if not allow_private:
            parse_address(destination, allow_private=True)
            raise NotHere("destination", "is of a .test domain, which is for development only") from None
        raise InvalidInput(
            "destination", "is not one e-mail address of the form name@domain, without a display name"
        ) from None
    if found.ascii_email is not None:
        return Address(found.ascii_email, ascii=True)
    return Address(f"{found.local_part}@{found.ascii_domain}", ascii=False)
