"""The kit can fail: each broken provider is caught by exactly the check that is meant for it, in the words of its rule."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from integration.providers import broken_by_import, broken_calls, broken_forms, sound_providers
from integration.providers.sound_providers import Good
from reminders.testing import OUTCOMES, RULES, ProviderContract, Scene
from reminders.testing.scenes import LOOK_UPS

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
CLOCK, SEED = "test_render_does_not_depend_on_the_clock", "test_render_does_not_depend_on_the_hash_seed"
FORMATS, BAD = "test_render_knows_every_body_format", "test_bad_destinations"
NO_TEXT = "test_destinations_that_are_no_text_for_any_channel"
PRIVATE, FORM = "test_nothing_private_comes_to_light", "test_outcomes_are_well_formed"

CAUGHT = {
    "RaisesAtARefusal": ("outcome", "test_send[refuses]"),
    "ReturnsNothingWhereItIsGone": ("outcome", "test_send[is-gone]"),
    "RaisesForABadDestination": ("outcome", "test_send_where_the_destination_has_become_a_bad_one"),
    "RaisesWithoutTime": ("outcome", "test_send_when_no_time_is_left"),
    "TimesOutByTheByte": ("deadline", "test_send[drips]", "test_send[never-ends]"),
    "AnswersByItsOwnTimeOut": (
        "deadline",
        "test_send[drips]",
        "test_send[does-not-answer]",
        "test_send[does-not-accept]",
    ),
    "TakesALostConnectionForARetry": ("meaning", "test_send[breaks-after-reading]"),
    "TakesATimeOutForARetry": ("meaning", "test_send[does-not-answer]", "test_send[drips]"),
    "TakesAServerErrorForARetry": ("meaning", "test_send[fails]"),
    "TakesARefusedConnectionForUnknown": ("meaning", "test_send[refuses-connections]"),
    "TakesBusyForARefusal": ("meaning", "test_send[is-busy]"),
    "TakesBadCredentialsForARefusal": ("meaning", "test_send[refuses-our-credentials]"),
    "TakesGoneForARefusal": ("meaning", "test_send[is-gone]"),
    "TakesARefusalForGone": ("meaning", "test_send[refuses]"),
    "TakesNonsenseForASuccess": ("meaning", "test_send[talks-nonsense]"),
    "TriesAgainByItself": ("one-call", "test_send_makes_one_call"),
    "WritesTheAttemptIntoTheRequest": ("same-request", "test_attempts_send_the_same_body"),
    "AppendsTheAttemptToTheKey": ("key", "test_attempts_carry_the_key"),
    "SendsNoKey": ("key", "test_attempts_carry_the_key"),
    "WritesTheAttemptIntoTheBody": ("render-attempt", "test_render_does_not_depend_on_the_attempt"),
    "WritesTheDayIntoTheBody": ("render-clock", CLOCK),
    "WritesTheMachinesTimeIntoTheBody": ("render-clock", CLOCK),
    "WritesAHashIntoTheBody": ("render-hash-seed", SEED),
    "KeepsTheOrderOfKeys": ("render-key-order", "test_render_does_not_depend_on_the_order_of_keys"),
    "WritesChanceIntoTheBody": ("render", "test_render"),
    "RendersText": ("render", "test_render"),
    "RaisesWhenItRenders": ("render", "test_render"),
    "ChangesTheData": ("render", "test_render"),
    "ForgetsAnEarlierFormat": ("formats", FORMATS),
    "RendersFormatsToCome": ("formats", FORMATS),
    "AcceptsWhatCannotBe": ("destination", BAD),
    "AcceptsControls": ("destination-text", NO_TEXT),
    "AcceptsTextWithoutEnd": ("destination-text", NO_TEXT),
    "RefusesWithAnotherError": ("destination", BAD, NO_TEXT),
    "RefusesAnotherField": ("destination", BAD, NO_TEXT),
    "RefusesWhatIsGood": ("destination", "test_good_destination"),
    "LooksTheNameUp": ("offline", "test_no_network_before_sending"),
    "ConnectsWhenItIsMade": ("offline", "test_no_network_before_sending"),
    "NeedsItsTokenToSchedule": ("unconfigured", "test_without_settings"),
    "SendsWithoutItsToken": ("unconfigured", "test_without_settings"),
    "RaisesWhenAskedWhetherItIsReady": ("ready", "test_ready"),
    "IsNeverReady": ("ready", "test_ready"),
    "SaysNotWhetherItDeduplicates": ("types", "test_attributes"),
    "CountsItsFormatsInWords": ("types", "test_attributes"),
    "SendsToTheFirstDestinationItSaw": ("own-destination", "test_each_destination_receives_its_own"),
    "CallsOneAfterTheOther": ("no-waiting", "test_a_silent_call_keeps_no_other_waiting"),
    "SharesThePlaceBetweenThreads": ("threads", "test_threads"),
    "SharesAFieldBetweenThreads": ("threads", "test_threads"),
    "KeepsItsParentsConnections": ("fork", "test_fork"),
    "LogsTheDestination": ("private", PRIVATE),
    "LogsTheData": ("private", PRIVATE),
    "ShowsItsToken": ("private", PRIVATE),
    "NamesTheDestinationInAReason": ("private", PRIVATE),
    "KeepsTheFarSidesWords": ("redacted", "test_what_the_far_side_says_is_redacted"),
    "SaysTooMuch": ("form", FORM),
    "SaysWhatCannotBeStored": ("form", FORM),
    "NumbersItsReference": ("form", FORM),
    "CountsSecondsAsNumbers": ("form", FORM),
    "NamesNoError": ("form", FORM),
    "DoesNotSayWhenItSettles": ("types", "test_attributes"),
    "RaisesWhenAsked": ("look-up", "test_look_up[fails]"),
    "TakesSilenceForAbsence": ("look-up", "test_look_up[does-not-answer]", "test_look_up[drips]"),
    "TakesAbsenceForAFind": ("look-up", "test_look_up[does-not-know-the-key]"),
    "AsksForEver": (
        "deadline",
        "test_look_up[does-not-answer]",
        "test_look_up[does-not-accept]",
        "test_look_up[drips]",
    ),
    "AnswersInWords": ("look-up", "test_look_up[knows-the-key]", "test_look_up[never-ends]"),
    "ImportsCelery": ("import", "test_import_brings_no_celery"),
}
SOUND = ("Good", "Asked")


@pytest.fixture(scope="module")
def failures(tmp_path_factory) -> dict[str, dict[str, str]]:
    """Of each contract class the tests that failed, with what they said; one run of pytest for all."""
    report = tmp_path_factory.mktemp("contracts") / "report.xml"
    command = [sys.executable, "-m", "pytest", str(HERE / "broken_contracts.py"), "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--tb=short", f"--junitxml={report}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout[-3000:] + done.stderr
    found: dict[str, dict[str, str]] = {}
    for case in ET.parse(report).iter("testcase"):
        of_class = found.setdefault(case.get("classname", "").rpartition(".Test")[2], {})
        for child in case:
            if child.tag in {"failure", "error"}:
                of_class[case.get("name", "")] = child.text or ""
    return found


@pytest.mark.parametrize("name", CAUGHT)
def test_what_is_broken_is_caught_by_its_check_alone(failures, name):
    rule, *checks = CAUGHT[name]
    assert sorted(failures[name]) == sorted(checks)
    for message in failures[name].values():
        assert f"The rule `{rule}`: {RULES[rule]}" in message
        assert f"docs/providers.md#{rule}" in message


@pytest.mark.parametrize("name", SOUND)
def test_what_is_sound_passes(failures, name):
    assert failures[name] == {}


def test_every_provider_here_is_expected_to_be_caught():
    defined = {
        name
        for module in (sound_providers, broken_calls, broken_forms, broken_by_import)
        for name, found in vars(module).items()
        if isinstance(found, type) and issubclass(found, Good)
    }
    assert defined - {"Recast"} == {*CAUGHT, *SOUND}


def test_every_rule_has_a_provider_that_breaks_it():
    assert {rule for rule, *_ in CAUGHT.values()} == RULES.keys() - {"entry-point"}


def test_the_page_has_every_rule_and_every_scene_in_the_kits_words():
    page = (ROOT / "docs" / "providers.md").read_text()
    rules = dict(re.findall(r'^\| <a id="([a-z-]+)"></a>`\1` \| (.+?) \|', page, re.MULTILINE))
    assert rules == RULES
    rows = re.findall(r"^\| `([a-z-]+)` \| .+? \| (.+?) \|$", page, re.MULTILINE)
    assert dict(rows) == {scene.value: wanted for scene, (wanted, _) in OUTCOMES.items()}
    assert {*OUTCOMES, *LOOK_UPS} == set(Scene)


class Entry(ProviderContract):
    factory = Good
    installed = True

    def environ(self, far_side):
        return {}


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ([], "no installed package has an entry point"),
        (
            [("telex", "integration.providers.sound_providers:Good")],
            "is called telex, and its provider's channel 'fax'",
        ),
        ([("fax", "integration.providers.sound_providers:Good")], None),
        ([("fax", "elsewhere:Good")], "no installed package has an entry point"),
    ],
)
def test_the_entry_point_is_compared(monkeypatch, points, words):
    from importlib.metadata import EntryPoint

    from reminders.testing import ContractBroken, form_checks

    monkeypatch.setattr(form_checks, "entry_points", lambda group: [EntryPoint(*each, group) for each in points])
    if words is None:
        Entry().test_entry_point(None)
        return
    with pytest.raises(ContractBroken, match=words) as caught:
        Entry().test_entry_point(None)
    assert caught.value.rule == "entry-point"


def test_a_factory_that_no_entry_point_can_name_is_refused():
    class Inner(Good): ...

    contract = type("Other", (Entry,), {"factory": Inner})
    from reminders.testing import ContractBroken

    with pytest.raises(ContractBroken, match="which an entry point could give"):
        contract().test_entry_point(None)


def test_what_every_network_can_do_cannot_be_left_out():
    contract = type("Other", (Entry,), {"cannot": {Scene.DRIPS: "we never saw it"}})
    with pytest.raises(pytest.UsageError, match="may not name drips"):
        contract()._play(None, Scene.DRIPS)


def test_without_pytest_it_says_what_is_missing():
    program = "import sys; sys.modules['pytest'] = None\nimport reminders.testing"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "ImportError: reminders.testing needs pytest: install reminders[testing]" in done.stderr
