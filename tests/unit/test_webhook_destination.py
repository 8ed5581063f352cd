"""Which destinations are accepted, and how a URL is taken apart. No sockets, no look-ups."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reminders.domain.errors import InvalidInput
from reminders.providers.destination_url import Target, parse_destination
from reminders.providers.public_addresses import is_public
from reminders.providers.webhook import provider
from reminders.settings import Settings

PUBLIC = provider(Settings())
PRIVATE = provider(Settings(allow_private=True))


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://example.com", Target("https", "example.com", 443, "/")),
        ("https://example.com/hook?a=1&b=%20", Target("https", "example.com", 443, "/hook?a=1&b=%20")),
        ("HTTPS://Example.COM:8443/Hook", Target("https", "example.com", 8443, "/Hook")),
        ("https://example.com./h", Target("https", "example.com.", 443, "/h")),
        ("https://example.com?x", Target("https", "example.com", 443, "/?x")),
        (
            "https://b\u00fccher.example/gr\u00fc\u00dfe",
            Target("https", "xn--bcher-kva.example", 443, "/gr%C3%BC%C3%9Fe"),
        ),
        ("https://xn--bcher-kva.example", Target("https", "xn--bcher-kva.example", 443, "/")),
        ("https://8.8.8.8/h", Target("https", "8.8.8.8", 443, "/h")),
        ("https://[2606:4700::1111]:444/h", Target("https", "2606:4700::1111", 444, "/h")),
        ("https://my_service.example:65535/h", Target("https", "my_service.example", 65535, "/h")),
        ("https://example.com/a;b=c/%2F/{x}", Target("https", "example.com", 443, "/a;b=c/%2F/%7Bx%7D")),
        ("https://example.com/" + "a" * 1980, Target("https", "example.com", 443, "/" + "a" * 1980)),
    ],
)
def test_accepted_and_taken_apart(url, target):
    PUBLIC.check_destination(url)
    assert parse_destination(url, allow_private=False) == target


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "is empty"),
        ("https://example.com/" + "a" * 1981, "has 2001 characters"),
        ("example.com/hook", "must be an absolute URL"),
        ("/hook", "must be an absolute URL"),
        ("//example.com/hook", "must be an absolute URL"),
        ("https:/example.com", "must be an absolute URL"),
        ("https:example.com", "must be an absolute URL"),
        ("https://", "has no host"),
        ("https:///hook", "has no host"),
        ("https://:443/hook", "has no host"),
        ("ftp://example.com", "must be an absolute URL"),
        ("file:///etc/passwd", "must be an absolute URL"),
        ("javascript:alert(1)", "must be an absolute URL"),
        ("gopher://example.com", "must be an absolute URL"),
        ("https://user:pass@example.com", "user name or password"),
        ("https://user@example.com", "user name or password"),
        ("https://@example.com", "user name or password"),
        ("https://example.com#x", "fragment"),
        ("https://example.com/#", "fragment"),
        ("https://exa mple.com", "a space"),
        (" https://example.com", "a space"),
        ("https://example.com ", "a space"),
        ("https://example.com/\r\nX: y", "a control character"),
        ("https://example.com/\t", "a control character"),
        ("https://example.com/\0", "a control character"),
        ("https://example.com/\x7f", "a control character"),
        ("https://example.com/\u00a0", "a space"),
        ("https://example.com/\u2028", "a space"),
        ("https://example.com/\ud800", "broken text"),
        ("https://example.com\\@8.8.8.8/", "a backslash"),
        ("https://example.com:0/", "ports are 1 to 65535"),
        ("https://example.com:65536/", "ports are 1 to 65535"),
        ("https://example.com:-1/", "ports are 1 to 65535"),
        ("https://example.com:abc/", "ports are 1 to 65535"),
        ("https://example.com:\uff18\uff10/", "not a URL"),
        ("https://example.com:/", "ports are 1 to 65535"),
        ("https://exa%6dple.com/", "malformed host name"),
        ("https://-example.com/", "malformed host name"),
        ("https://example..com/", "malformed host name"),
        ("https://.example.com/", "malformed host name"),
        ("https://./", "malformed host name"),
        ("https://ex*mple.com/", "malformed host name"),
        ("https://" + "a" * 64 + ".com/", "malformed host name"),
        ("https://" + "a." * 127 + "com/", "malformed host name"),
        ("https://[::1/", "not a URL"),
        ("https://[2606:4700::1111]x/", "IPv6"),
        ("https://[2606:4700::1111%25eth0]/", "IPv6"),
        ("https://[12345::1]/", "malformed"),
        ("https://\u2460\u2461\u2466.0.0.1/", "international domain name"),
        ("https://\uff11\uff12\uff17.0.0.1/", "international domain name"),
        ("https://127\u30020\u30020\u30021/", "international domain name"),
        ("https://2852039166/", "not four decimal numbers"),
        ("https://0xa9fea9fe/", "not four decimal numbers"),
        ("https://0251.0376.0251.0376/", "not four decimal numbers"),
        ("https://127.1/", "not four decimal numbers"),
        ("https://127.0.0.1./", "not four decimal numbers"),
        ("https://0x7f.0.0.0x1/", "not four decimal numbers"),
        ("https://1.2.3.4.5/", "not four decimal numbers"),
        ("https://256.1.1.1/", "not four decimal numbers"),
        ("https://01.1.1.1/", "not four decimal numbers"),
    ],
)
def test_refused_in_every_setting_with_the_field_named(url, words):
    for one in (PUBLIC, PRIVATE):
        with pytest.raises(InvalidInput) as refusal:
            one.check_destination(url)
        assert refusal.value.field == "destination"
        assert words in refusal.value.reason


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/hook",
        "https://localhost/",
        "https://LOCALHOST:8443/",
        "https://localhost./",
        "https://api.localhost/",
        "https://127.0.0.1/",
        "https://0.0.0.0/",
        "https://10.1.2.3/",
        "https://172.16.0.1/",
        "https://192.168.1.1/",
        "https://169.254.169.254/latest/meta-data/",
        "https://100.100.100.200/",
        "https://[::1]/",
        "https://[::]/",
        "https://[fe80::1]/",
        "https://[fd00:ec2::254]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:a9fe:a9fe]/",
        "https://[::127.0.0.1]/",
        "https://[64:ff9b::7f00:1]/",
        "https://[2002:7f00:1::]/",
    ],
)
def test_http_and_private_addresses_are_for_development(url):
    with pytest.raises(InvalidInput, match=r"^destination: .*development"):
        PUBLIC.check_destination(url)
    PRIVATE.check_destination(url)


@pytest.mark.parametrize(
    "address",
    """
    0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.254 127.0.0.1 127.255.255.254 168.63.129.16
    169.254.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.192 192.0.2.1 192.88.99.1 192.168.0.1
    198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
    :: ::1 ::7f00:1 ::a00:1 ::ffff:8.8.8.8 ::ffff:10.0.0.1 ::ffff:0:10.0.0.1 64:ff9b::808:808 64:ff9b::a00:1
    64:ff9b:1::a00:1 100::1 2001::1 2001:0:7f00:1::1 2001:10::1 2001:20::1 2001:db8::1 2002:808:808::1 2002:a00:1::
    3fff::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 fec0::1 ff02::1 ff0e::1 4000::1
    """.split(),  # noqa: SIM905 (a list of sixty would take sixty lines)
)
def test_addresses_that_are_not_public(address):
    assert is_public(address) is False


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.32.0.1", "2606:4700::1111", "2a00:1450::1"]
)
def test_public_addresses(address):
    assert is_public(address) is True


@given(st.text(max_size=60) | st.text(max_size=40).map("https://".__add__))
def test_any_text_is_taken_apart_or_refused(text):
    try:
        target = parse_destination(text, allow_private=False)
    except InvalidInput:
        pass
    else:
        assert target.host.isascii()
        assert target.path.isascii()
        assert target.scheme == "https"
