"""What templates say: names, filters, escaping, lines of faults, and the same text every time."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reminders.domain.errors import InvalidInput
from reminders.domain.template import TemplateFault, lacking, read_locale
from reminders.providers.template_filters import FILTERS
from reminders.providers.template_language import NAMES, TESTS
from reminders.providers.templating import check_part, render_part
from template_samples import DATA, delivery_of, render

PAGE = (Path(__file__).parents[2] / "docs" / "templates.md").read_text()


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ reference }} {{ kind }} {{ channel }} {{ tenant_id }} {{ user_id }} {{ zone }} {{ locale }}[{{ slot }}]",
         "order-17 payment_due email shop ada Europe/Berlin de[]"),
        ("{{ due_at }}", "2030-05-01T07:05:00Z"),
        ("{{ due_at|local('%d.%m.%Y %H:%M') }}", "01.05.2030 09:05"),
        ("{{ due_at|local('%-d.%-m.%y %-H:%M %I %p %A %a %B %b %j %u %G-W%V %z %Z %S %%') }}",
         "1.5.30 9:05 09 AM Wednesday Wed May May 121 3 2030-W18 +0200 CEST 00 %"),
        ("{{ due_at|local('%H:%M', 'America/New_York') }}", "03:05"),
        ("{{ '2030-12-24T12:00:00+00:00'|local('%H') }}", "13"),
        ("{{ data.order.total|fixed(2) }} {{ 3|fixed }} {{ '2.345'|fixed(1) }} {{ -1.005|fixed(2) }}", "12.50 3.00 2.3 -1.00"),
        ("{{ data.order.number + 1 }} {{ 7 // 2 }} {{ 7 % 4 }} {{ 7 / 2 }} {{ -data.order.number }}", "18 3 3 3.5 -17"),
        ("{{ data.items|join('-') }} {{ data.items|sort|join }} {{ data.items|first }}{{ data.items|last }}{{ data.items|length }}", "3-1-2 123 323"),
        ("{{ data.items[0] }}{{ data.items[-1] }}{{ data['items'][1:]|join }}", "3212"),
        ("{% for line in data.order.lines %}{{ loop.index }}:{{ line.name }}{% if not loop.last %}, {% endif %}{% endfor %}", "1:tea, 2:<b>&"),
        ("{% for name, value in data.order|items if name != 'lines' %}{{ name }}={{ value }};{% endfor %}", "number=17;total=12.5;"),
        ("{% for name in data.order %}{{ name }} {% endfor %}", "lines number total "),
        ("{{ data.nothing|default('a') }}{{ data.missing|d('b') }}{{ data.order.number|d('c') }}", "ab17"),
        ("{% if data.missing is defined %}x{% elif data.nothing is none %}y{% endif %}", "y"),
        ("{{ 'a b&c/ä'|urlencode }} {{ ' x '|trim }} {{ 'ab'|upper }} {{ 'abc'|replace('b', '') }} {{ 'abcdef'|truncate(4) }}",
         "a%20b%26c%2F%C3%A4 x AB ac abc…"),
        ("{{ '17'|int + 1 }} {{ 2.9|int }} {{ ['mo', 'tu', 'we'][due_at|local('%u')|int - 1] }}", "18 2 we"),
        ("{% set greeting = 'Hello ' ~ user_id %}{{ greeting }}", "Hello ada"),
        ("a\n{% if true %}\n  b\n{% endif %}\nc\n", "a\n  b\nc\n"),
        ("{% raw %}{{ x }}{% endraw %}{# no #}", "{{ x }}"),
        ("{{ 17 in data.items }} {{ 'SEC' in data.secret }}", "false true"),
    ],
)  # fmt: skip
def test_it_says(source, text):
    assert render(source) == text


@pytest.mark.parametrize(
    ("source", "line", "said"),
    [
        ("one\ntwo {{ data.order.missing }}\nthree", 2, "missing is missing in the data"),
        ("one\n\n{{ data.gone.further }}", 3, "gone is missing in the data"),
        ("{% for x in data.order.lines %}\n{{ x.name }}\n{{ x.price }}\n{% endfor %}", 3, "price is missing"),
        ("{% for x in data.order.lines\n if x.price %}{% endfor %}", None, "price is missing"),
        ("a\nb\n{{ nmae }}", 3, "there is no name nmae; there are channel, data"),
        ("a\n{{ reference | uper }}", 2, "there is no filter uper"),
        ("a\n{% if %}", 2, "Expected an expression"),
        ("a\n\n{{ data.nothing }}", 3, "null cannot be written"),
        ("{{\n data.order.number\n - 'x' }}", None, "takes numbers"),
        ("a\n{{ due_at | local('%Q') }}", 2, "has no %Q"),
        ("a\n{% set x = data.missing %}\n{{ x }}", 3, "missing is missing"),
        ("{% if data.missing == 1 %}{% endif %}", 1, "missing is missing"),
    ],
)
def test_faults_name_template_part_and_line(source, line, said):
    with pytest.raises(TemplateFault, match=said) as caught:
        render(source)
    fault = caught.value
    assert (fault.where, fault.part) == ("shop/payment_due/email/de@3", "text")
    assert fault.line == line if line else fault.line in range(1, source.count("\n") + 2)
    assert str(fault).startswith(f"shop/payment_due/email/de@3, text, line {fault.line}: ")


def test_a_reminder_without_a_zone_must_be_given_one():
    with pytest.raises(TemplateFault, match="the reminder has no zone; name one"):
        render("{{ due_at | local('%H') }}", zone=None)
    assert render("{{ due_at | local('%H:%M', zone or 'Asia/Kolkata') }}", zone=None) == "12:35"


def test_html_is_escaped_and_the_other_parts_are_not():
    source = '<p title="{{ data.order.lines[1].name }}">{{ data.order.lines[1].name ~ \'"\' }}</p>'
    escaped = '<p title="&lt;b&gt;&amp;">&lt;b&gt;&amp;&#34;</p>'
    assert render(source, html=True) == escaped
    assert render(source, "html") == escaped
    assert render(source) == '<p title="<b>&"><b>&"</p>'
    assert render("{{ data.order.lines[1].name }}", "subject") == "<b>&"
    block = "{% set x %}<i>{{ data.order.lines[1].name }}</i>{% endset %}{{ x }}{{ [x, '<']|join('&') }}"
    assert render(block, "html") == "<i>&lt;b&gt;&amp;</i><i>&lt;b&gt;&amp;</i>&amp;&lt;"


@pytest.mark.parametrize("mark", ["\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x85", "\u2028", "\0"])
def test_a_subject_is_one_line(mark):
    with pytest.raises(TemplateFault, match="subject: it comes to more than one line"):
        render("Order {{ data.name }}", "subject", data={"name": f"a{mark}Bcc: b"})
    assert render("Order 17\n", "subject") == "Order 17"
    assert render("{{ data.name }}", data={"name": f"a{mark}b"}) == f"a{mark}b"


def test_a_template_that_is_missing_or_lacks_the_part():
    with pytest.raises(TemplateFault, match="shop/payment_due/email: no template"):
        render_part(delivery_of({}, template=None), "text")
    with pytest.raises(TemplateFault, match="email/de@3, html: the template has no such part"):
        render_part(delivery_of({"text": "x"}), "html")


def test_the_order_in_which_the_data_come_changes_nothing():
    source = "{% for name in data %}{{ name }} {% endfor %}{% for k, v in data.order|items %}{{ k }}{% endfor %}"
    names = list(DATA)
    random.Random(3).shuffle(names)
    other = {name: DATA[name] for name in names}
    other["order"] = dict(reversed(DATA["order"].items()))
    assert list(other) != list(DATA)
    assert render(source, data=other) == render(source)


def test_what_it_says_depends_on_nothing_of_the_process():
    program = (
        "import locale, sys; from template_samples import render\n"
        "try: locale.setlocale(locale.LC_ALL, '')\nexcept locale.Error: pass\n"
        "sys.stdout.write(render(\"{{ due_at|local('%A %B %Z %H') }} {{ data.order.total|fixed(2) }} {{ data.items|sort|join }}\"))"
    )
    path = os.pathsep.join([str(Path(__file__).parents[1]), str(Path(__file__).parents[2]), *sys.path])
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed, "TZ": zone, "LC_ALL": "de_DE.UTF-8"},
            capture_output=True, text=True, check=True, timeout=60,
        ).stdout
        for seed, zone in (("1", "UTC"), ("2", "Pacific/Apia"))
    }  # fmt: skip
    assert told == {"Wednesday May CEST 09 12.50 123"}


def test_threads_fill_in_side_by_side():
    source = "{% for x in data.items %}{{ x }}{% endfor %} {{ reference }}"

    def work(number):
        return render(source, reference=f"order-{number}")

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(work, range(200))) == [f"312 order-{number}" for number in range(200)]


def test_a_part_is_checked_without_a_reminder():
    check_part("due.txt", "text", "{{ data.anything.at.all }}")
    with pytest.raises(TemplateFault, match=r"^due\.txt, html, line 2: there is no name nope"):
        check_part("due.txt", "html", "\n{{ nope }}")


@pytest.mark.parametrize(("text", "locale"), [("de", "de"), ("pt-BR", "pt-br"), ("zh_Hant_TW", "zh-hant-tw")])
def test_locales_are_lower_case_with_hyphens(text, locale):
    assert read_locale(text) == locale


@pytest.mark.parametrize("text", ["", "d", "german", "de-", "-de", "de--at", "de at", "de\n", "dé", "../etc"])
def test_what_is_no_language_tag_is_refused(text):
    with pytest.raises(InvalidInput, match=r"locale: .*is no language tag"):
        read_locale(text)


def test_what_is_lacking_is_named_with_the_command_that_adds_it():
    said = lacking("t", "a kind", "email", ["subject", "text"])
    assert "`reminders template add --all-tenants --kind 'a kind' --channel email --subject FILE --text FILE`" in said


def test_the_page_lists_the_names_filters_and_tests_there_are():
    language = PAGE.partition("## The language")[2]
    for word in (*NAMES, *FILTERS, *TESTS):
        assert f"`{word}`" in language or f"`{word}(" in language, word


def test_a_zone_far_ahead_and_far_back():
    assert render("{{ due_at|local('%Y') }}", due_at=datetime(9998, 12, 31, 23, tzinfo=UTC)) == "9999"
    assert render("{{ due_at|local('%Y') }}", due_at=datetime(1970, 1, 1, tzinfo=UTC)) == "1970"


@pytest.mark.parametrize("part", ["text", "html"])
@pytest.mark.parametrize(
    ("source", "line", "said"),
    [
        ("{#", 1, "a comment is opened and never closed"),
        ("a\n{#-", 2, "a comment is opened and never closed"),
        ("a\n{# x", 2, "Missing end of comment tag"),
        ("{% raw %}", 1, "a raw block is opened and never closed"),
        ("a\nb\n{%- raw -%}", 3, "a raw block is opened and never closed"),
        ("{% raw %}\nx", 1, "Missing end of raw directive"),
    ],
)
def test_what_the_end_of_the_text_leaves_open_is_a_fault_with_its_line(source, line, said, part):
    with pytest.raises(TemplateFault) as fault:
        check_part("due.txt", part, source)
    assert (fault.value.line, fault.value.reason) == (line, said)


@pytest.mark.parametrize("source", ["{##}", "{% raw %}{% endraw %}", "{% raw %}{#{% endraw %}", "{{ '{#' }}", "#}", ""])
def test_what_is_closed_is_none(source):
    check_part("due.txt", "text", source)
