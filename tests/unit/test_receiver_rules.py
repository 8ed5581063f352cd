"""The receiver's rules without a socket: its URLs, whose signature counts, what a message is, the scripted paths."""

from __future__ import annotations

import json

import pytest

from reminders.domain.errors import InvalidInput
from reminders.providers.signing import derive_secret, sign
from reminders.receiver.addresses import Addresses, default_urls
from reminders.receiver.kit import NotVerified, StaleTimestamp, WrongSignature
from reminders.receiver.message import Malformed, Message, claimed_tenant, message_of, read_claims
from reminders.receiver.misbehaviour import refusal, seconds_of_delay
from reminders.receiver.verification import Verifier
from reminders.settings import Secret

NOW = 1_790_000_000
MASTER = "a master secret for these tests"
URL = "https://shop.example/hook"
CLAIMS = {
    "v": 1,
    "key": "dk_1",
    "tenant_id": "acme",
    "user_id": "anna",
    "kind": "invoice",
    "reference": None,
    "due_at": "2026-11-29T12:00:00Z",
}


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", ["http://127.0.0.1:8780/hook", "http://localhost:8780/hook"]),
        ("0.0.0.0", ["http://127.0.0.1:8780/hook", "http://localhost:8780/hook"]),
        ("::1", ["http://[::1]:8780/hook", "http://localhost:8780/hook"]),
        ("localhost", ["http://localhost:8780/hook", "http://127.0.0.1:8780/hook"]),
        ("192.0.2.7", ["http://192.0.2.7:8780/hook"]),
    ],
)
def test_urls_by_default(host, expected):
    assert list(default_urls(host, 8780)) == expected


@pytest.mark.parametrize(
    ("target", "destinations", "script", "query"),
    [
        ("/hook", ("https://a.example/hook", "http://b.example:81/hook"), "", ""),
        ("/hook?x=1", ("https://a.example/hook?x=1", "http://b.example:81/hook?x=1"), "", "x=1"),
        ("/hook/refuse", ("https://a.example/hook/refuse", "http://b.example:81/hook/refuse"), "/refuse", ""),
        ("/in/hook/slow?ms=5", ("https://c.example/in/hook/slow?ms=5",), "/slow", "ms=5"),
        ("/gr%C3%BC%C3%9Fe/refuse", ("https://d.example/grüße/refuse",), "/refuse", ""),
    ],
)
def test_a_place_is_the_whole_url_on_every_host(target, destinations, script, query):
    others = ["https://c.example/in/hook", "https://d.example/grüße"]
    addresses = Addresses(["https://a.example/hook", "http://b.example:81/hook", *others])
    place = addresses.place(target)
    assert (place.destinations, place.script, place.query) == (destinations, script, query)


@pytest.mark.parametrize("target", ["/", "/hook/", "/hooks", "/hook/other", "/HOOK", "*", "http://a.example/hook", ""])
def test_other_targets_are_no_place(target):
    assert Addresses(["https://a.example/hook"]).place(target) is None


@pytest.mark.parametrize("url", ["", "a.example/hook", "ftp://a.example/hook", "https:///hook", "https://a.example", "https://a.example/", "https://a.example/hook?x=1", "https://a.example/hook#x", "http://[::1/hook", "http://a.example:x/hook"])  # fmt: skip
def test_what_cannot_be_a_url_of_ours_is_refused(url):
    with pytest.raises(InvalidInput, match=r"^url: "):
        Addresses([url])


def signed(secret, body, *, at=NOW, key="dk_1"):
    return {"Webhook-Id": key, "Webhook-Timestamp": str(at), "Webhook-Signature": sign([secret], key, at, body)}


def derived(tenant_id="acme", url=URL):
    return derive_secret(MASTER.encode(), tenant_id, "webhook", url)


def verifier(*secrets, master=MASTER):
    return Verifier(master=None if master is None else Secret(master), secrets=secrets, clock=lambda: NOW)


def test_the_derived_secret_of_any_of_our_urls_is_good():
    for url in (URL, "http://localhost/hook"):
        verifier().verify([URL, "http://localhost/hook"], "acme", signed(derived(url=url), b"{}"), b"{}")


@pytest.mark.parametrize(
    ("secret", "why"),
    [
        (derived("evil"), "of another tenant"),
        (derived(url="https://evil.example/hook"), "of another URL"),
        (derived(url=URL + "/slow"), "of another path"),
        (b"x" * 32, "of nobody"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_any_other_secret_is_not(secret, why):
    with pytest.raises(WrongSignature):
        verifier().verify([URL], "acme", signed(secret, b"{}"), b"{}")


@pytest.mark.parametrize(("age", "good"), [(0, True), (300, True), (-300, True), (301, False), (-301, False)])
def test_five_minutes_either_way(age, good):
    headers = signed(derived(), b"{}", at=NOW - age)
    if good:
        verifier().verify([URL], "acme", headers, b"{}")
    else:
        with pytest.raises(StaleTimestamp):
            verifier().verify([URL], "acme", headers, b"{}")


def test_secrets_given_outright_are_good_for_every_tenant_and_need_no_master():
    old, new = b"o" * 32, b"n" * 32
    one = verifier(old, new, master=None)
    one.verify([URL], "acme", signed(old, b"{}"), b"{}")
    one.verify([URL], None, signed(new, b"not json"), b"not json")
    with pytest.raises(WrongSignature):
        one.verify([URL], "acme", signed(derived(), b"{}"), b"{}")


def test_without_a_tenant_there_is_nothing_to_derive():
    with pytest.raises(NotVerified, match="names no tenant"):
        verifier().verify([URL], None, signed(derived(), b"{}"), b"{}")


def test_a_message_is_read():
    claims = read_claims(json.dumps({**CLAIMS, "reference": "grüße", "more": [1]}).encode())
    assert claimed_tenant(claims) == "acme"
    assert message_of(claims, "dk_1") == Message("dk_1", "acme", "anna", "invoice", "grüße", "2026-11-29T12:00:00Z")


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"1", b"{", b"\xff\xfe", b'{"a":' * 30_000, b"9" * 5000, '{"v":1}'.encode("utf-16")]
)
def test_what_is_no_object_claims_nothing(body):
    assert read_claims(body) == {}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"v": 2}, "v = 1"),
        ({"v": None}, "v = 1"),
        ({"key": "dk_2"}, "differ"),
        ({"key": None}, "differ"),
        ({"tenant_id": 7}, "tenant_id"),
        ({"tenant_id": ""}, "tenant_id"),
        ({"user_id": None}, "user_id"),
        ({"kind": ["x"]}, "kind"),
        ({"reference": 7}, "reference"),
        ({"due_at": 7}, "due_at"),
        ({"user_id": "\ud800"}, "user_id"),
    ],
)
def test_a_field_that_is_wrong_is_named(change, what):
    claims = read_claims(json.dumps({**CLAIMS, **change}).encode())
    with pytest.raises(Malformed, match=what):
        message_of(claims, "dk_1")


@pytest.mark.parametrize("tenant", [None, 7, ["acme"], "\udfff"])
def test_a_tenant_that_is_no_text_is_no_tenant(tenant):
    assert claimed_tenant(read_claims(json.dumps({"tenant_id": tenant}).encode())) is None


@pytest.mark.parametrize(
    ("script", "earlier", "status"),
    [("", 0, None), ("/slow", 0, None), ("/refuse", 0, 422), ("/refuse", 9, 422), ("/fail-twice", 0, 503), ("/fail-twice", 1, 503), ("/fail-twice", 2, None)],
)  # fmt: skip
def test_scripted_refusals(script, earlier, status):
    refused = refusal(script, earlier)
    assert (refused and refused[0]) == status


@pytest.mark.parametrize(
    ("script", "query", "seconds"),
    [("", "ms=5", 0), ("/slow", "ms=250", 0.25), ("/slow", "", 1), ("/slow", "ms=99999", 60), ("/slow", "ms=x", 1)],
)
def test_scripted_delays(script, query, seconds):
    assert seconds_of_delay(script, query) == seconds
