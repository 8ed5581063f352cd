"""Templates that mean no good: each ends as a fault, within a bound, and says nothing of the data."""

from __future__ import annotations

import time

import pytest

from reminders.domain.template import TemplateFault
from template_samples import render

LONGEST = 6.0
"""Seconds; three times what the slowest takes on a slow machine."""
LOOPS = "{% for a in data.many %}{% for b in data.many %}"
ENDS = "{% endfor %}{% endfor %}"
DOUBLED = "{% set x = x ~ x %}"
LONG = "{% set x = 'a' %}" + DOUBLED * 15

REFUSED = {
    "class": ("{{ ''.__class__ }}", "__class__ is missing"),
    "class of data": ("{{ data.__class__.__mro__ }}", "__class__ is missing"),
    "class by brackets": ("{{ data['__class__'] }}", "__class__ is missing"),
    "class by a text put together": ("{{ data['__cla' ~ 'ss__'] }}", "in brackets is missing"),
    "attr": ("{{ data|attr('__class__') }}", "no filter attr"),
    "format": ("{{ '{0.__class__}'.format(data) }}", "nothing can be called"),
    "format unbound": ("{{ '{0}'.format }}", "format is missing"),
    "format filter": ("{{ '%s'|format(data) }}", "no filter format"),
    "percent": ("{{ '%s' % data }}", "% takes numbers"),
    "percent width": ("{{ '%999999999d' % 1 }}", "% takes numbers"),
    "percent by a test": ("{{ '%999999999d' is odd }}", "no test odd"),
    "percent by another test": ("{{ '%999999999d' is divisibleby 3 }}", "no test divisibleby"),
    "include": ("{% include 'x' %}", "include, import, extends"),
    "import": ("{% import 'x' as y %}", "include, import, extends"),
    "from import": ("{% from 'x' import y %}", "include, import, extends"),
    "extends": ("{% extends 'x' %}", "include, import, extends"),
    "block": ("{% block x %}{% endblock %}", "no block"),
    "macro": ("{% macro x() %}{% endmacro %}", "no macro"),
    "call block": ("{% call data.x() %}{% endcall %}", "no callblock"),
    "method of data": ("{{ data.items() }}", "nothing can be called"),
    "method of a text": ("{{ data.secret.upper() }}", "nothing can be called"),
    "range": ("{{ range(10) }}", "nothing can be called"),
    "range unbound": ("{{ range }}", "no name range"),
    "lipsum": ("{{ lipsum }}", "no name lipsum"),
    "namespace": ("{% set n = namespace(a=1) %}", "nothing can be called"),
    "self": ("{{ self }}", "no name self"),
    "our own names": ("{{ _work }}", "no name _work"),
    "our own filters": ("{{ data.many|_each(0) }}", "no filter _each"),
    "safe": ("{{ data.secret|safe }}", "no filter safe"),
    "autoescape off": ("{% autoescape false %}{{ data.secret }}{% endautoescape %}", "no scope"),
    "a name of ours set": ("{% set data = 1 %}", "data has its meaning already"),
    "power": ("{{ 2 ** 999999 }}", "no operator \\*\\*"),
    "repeated text": ("{{ 'a' * 1000000000 }}", "\\* takes numbers"),
    "repeated list": ("{{ [1] * 1000000000 }}", "\\* takes numbers"),
    "large number": ("{{ 9000000000000000000 * 9000000000000000000 }}", "too large"),
    "large literal": ("{{ 1" + "0" * 5000 + " }}", "cannot be read|too large"),
    "larger than doubles": ("{{ 1e300 * 1e300 }}", "too large"),
    "division by zero": ("{{ 1 / 0 }}", "division by zero"),
    "loop in loop in loop": (LOOPS + "{% for c in data.many %}{% endfor %}" + ENDS, "too many steps"),
    "loop over letters": ("{% for a in 'abc' %}{% endfor %}", "a loop goes over a list"),
    "recursive loop": ("{% for a in data.many recursive %}{% endfor %}", "cannot be recursive"),
    "doubled text": ("{% set x = 'a' %}" + DOUBLED * 60, "a text has"),
    "added text": ("{% set x = 'a' %}" + "{% set x = x + x %}" * 60, "a text comes to"),
    "lists in lists": ("{% set x = [1] %}" + "{% set x = [x, x] %}" * 60, "cannot be put into another"),
    "replaced": (LONG + "{{ x|replace('a', x) }}", "comes to more"),
    "joined": (LONG + "{{ [x, x, x]|join(x) }}", "comes to more"),
    "large output": (LONG + "{{ x }}" * 9, "it comes to more than 262,144"),
    "large escaped output": ("{% set x = '<' %}" + DOUBLED * 15 + "{{ x }}" * 9, "it comes to more than 262,144"),
    "set blocks": ("{% for a in data.many %}{% set y %}" + "z" * 20_000 + "{% endset %}{% endfor %}", "too many steps"),
    "many dates": (LOOPS + "{% set y = due_at|local('" + "%Z" * 100 + "') %}" + ENDS, "too many steps"),
    "long date": ("{{ due_at|local('" + "%Z" * 101 + "') }}", "more than 200"),
    "many cuts": (LONG + LOOPS + "{% set y = x[1:] %}" + ENDS, "too many steps"),
    "many searches": (LONG + LOOPS + "{% set y = (x ~ 'b') in x %}" + ENDS, "too many steps|a text"),
    "many sorts": (LOOPS + "{% set y = data.many|sort %}" + ENDS, "too many steps"),
    "many joins": (LOOPS + "{% set y = data.empty|join %}" + ENDS, "too many steps"),
    "many numbers": (LOOPS + "{% set y = '1e30'|fixed(10) %}" + ENDS, "too many steps"),
    "long number": ("{{ '1e999999999'|fixed }}", "a number of at most 30 digits"),
    "deep brackets": ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "nested too deeply"),
    "deep blocks": ("{% if 1 %}" * 500 + "{% endif %}" * 500, "nested too deeply"),
    "deep loops": ("{% for a in data.many %}" * 30 + "{% endfor %}" * 30, "nested too deeply"),
    "long sums": ("{{ 1" + "+1" * 2000 + " }}", "nested too deeply"),
    "many comparisons": ("{{ 1" + "<1" * 20_000 + " }}", "more than 5,000 steps"),
    "many calls": ("{{ data" + "()" * 20_000 + " }}", "nested too deeply"),
    "long source": ("x" * 131_073, "at most 131,072"),
}  # fmt: skip


@pytest.mark.parametrize("html", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_it_ends_as_a_fault_within_a_bound_and_tells_nothing_of_the_data(name, html):
    source, said = REFUSED[name]
    started = time.process_time()
    with pytest.raises(TemplateFault, match=said) as caught:
        render(source, html=html)
    assert time.process_time() - started < LONGEST
    assert "SECRET" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "source",
    [
        "{{ data[data.secret] }}",
        "{{ data.many[data.secret] }}",
        "{{ data.secret - 1 }}",
        "{{ data.secret < 1 }}",
        "{{ data.secret|fixed }}",
        "{{ data.secret|int }}",
        "{{ data.secret|local('%H') }}",
        "{{ due_at|local('%H', data.secret) }}",
        "{{ due_at|local(data.secret ~ '%Q') }}",
        "{{ data.secret[::0] }}",
        "{{ data.secret.x.y }}",
        "{{ data }}",
        "{% for a in data.secret %}{% endfor %}",
    ],
)
def test_no_fault_tells_what_the_data_say(source):
    with pytest.raises(TemplateFault) as caught:
        render(source)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert str(caught.value).startswith("shop/payment_due/email/de@3, text, line 1: ")
