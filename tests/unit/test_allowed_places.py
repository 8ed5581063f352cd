"""What a rule may say, and what it opens: no more than its words."""

from __future__ import annotations

import pytest

from reminders.domain.allowed_places import NOTHING, from_rules, read_place
from reminders.domain.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("10.20.0.0/16", "10.20.0.0/16"),
        (" 10.20.1.5 ", "10.20.1.5/32"),
        ("FC00::/7", "fc00::/7"),
        ("fd12:0:0::5", "fd12::5/128"),
        ("Hooks.Internal.Example.", "hooks.internal.example"),
        ("hooks", "hooks"),
        ("localhost", "localhost"),
        ("xn--bcher-kva.corp", "xn--bcher-kva.corp"),
        ("127.0.0.1", "127.0.0.1/32"),
        ("127.0.0.1/32", "127.0.0.1/32"),
        ("::1", "::1/128"),
        ("169.254.169.254/32", "169.254.169.254/32"),
    ],
)
def test_a_rule_has_one_form(text, place):
    assert read_place(text) == place
    assert read_place(place) == place


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "neither a network nor a host name"),
        ("hooks corp", "neither"),
        ("*.corp", "neither"),
        ("https://hooks.corp", "no network"),
        ("hooks.corp:443", "no network"),
        ("hooks..corp", "neither"),
        ("b\u00fccher.corp", "xn--"),
        ("\u0661\u0660.0.0.1", "no network"),
        ("10.20.0.1/16", "has host bits set"),
        ("127.1", "no network"),
        ("0x7f000001", "no network"),
        ("2130706433", "no network"),
        ("10.20.0.0/16/8", "no network"),
        ("0.0.0.0/0", "too wide"),
        ("8.0.0.0/7", "too wide"),
        ("::/0", "too wide"),
        ("f000::/6", "no network|too wide"),
        ("127.0.0.0/8", "name the one address"),
        ("127.0.0.0/31", "name the one address"),
        ("169.254.0.0/16", "name the one address"),
        ("169.254.169.0/24", "name the one address"),
        ("fe80::/10", "name the one address"),
        ("fe80::1%eth0", "names an interface"),
        ("0.0.0.0", "cannot be allowed"),
        ("224.0.0.1", "cannot be allowed"),
        ("255.255.255.255", "cannot be allowed"),
        ("ff02::1", "cannot be allowed"),
        ("::", "cannot be allowed"),
        ("::ffff:10.0.0.1", "cannot be allowed"),
        ("::10.0.0.1", "cannot be allowed"),
        ("64:ff9b::a00:1", "cannot be allowed"),
        ("2002:a00:1::/48", "cannot be allowed"),
    ],
)
def test_a_rule_that_says_too_much_or_nothing_is_refused(text, words):
    with pytest.raises(InvalidInput, match=words) as refusal:
        read_place(text)
    assert refusal.value.field == "place"


INSIDE = from_rules(["10.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "fc00::/7", "hooks.corp"])


@pytest.mark.parametrize("address", ["10.20.1.5", "100.64.0.1", "fd12::5", "10.255.255.255"])
def test_a_network_opens_its_addresses_whatever_the_name(address):
    assert INSIDE.permits("any.example", address)
    assert INSIDE.opens(address)
    assert not NOTHING.permits("any.example", address)
    assert not NOTHING.opens(address)


@pytest.mark.parametrize("address", ["192.168.1.1", "172.16.0.9", "198.18.0.1", "fec0::1", "10.0.0.1"])
def test_a_name_opens_the_private_addresses_that_it_leads_to_and_no_other_name_does(address):
    rules = from_rules(["hooks.corp"])
    assert rules.permits("HOOKS.corp.", address)
    assert not rules.permits("other.corp", address)
    assert not rules.permits("a.hooks.corp", address)
    assert not rules.opens(address)
    assert rules.opens("hooks.corp.")
    assert not rules.opens("corp")


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.0.0.2", "::1", "169.254.169.254", "169.254.170.2", "fe80::1", "168.63.129.16", "100.100.100.200",
        "192.0.0.192", "fd00:ec2::254", "fd20:ce::254",
    ],
)  # fmt: skip
def test_this_machine_and_metadata_take_a_rule_that_names_the_address(address):
    wide = from_rules(["10.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "fc00::/7", "hooks.corp", "127.0.0.9/32"])
    assert not wide.permits("hooks.corp", address)
    assert not wide.opens(address)
    exact = from_rules([read_place(address)])
    assert exact.permits("hooks.corp", address)
    assert exact.opens(address)
    assert not exact.opens("hooks.corp")


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0", "0.1.2.3", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::ffff:10.0.0.1", "::ffff:127.0.0.1",
        "::10.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::a00:1", "2002:a00:1::", "2001:0:a00:1::", "ff02::1", "fe80::1%1", "fd12::5%1",
    ],
)  # fmt: skip
def test_nothing_opens_what_is_no_ones_address(address):
    # The rules could not be made; here they stand all the same.
    everything = from_rules(["0.0.0.0/0", "::/0", "hooks.corp", "::ffff:10.0.0.1/128", "0.0.0.0/32"])
    assert not everything.permits("hooks.corp", address)
    assert not everything.opens(address)
