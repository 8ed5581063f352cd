"""Names of zones: which are known, and what is said of the others."""

import pytest

from reminders.calendar.zones import load_zone
from reminders.domain.errors import InvalidInput


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("europe/berlin", "'europe/berlin' is no IANA zone name; did you mean Europe/Berlin?"),
        ("america/new york", "'america/new york' is no IANA zone name; did you mean America/New_York?"),
        ("Berlin", "'Berlin' is no IANA zone name; did you mean Europe/Berlin?"),
        ("utc ", "'utc ' is no IANA zone name; did you mean UTC?"),
        ("Factory", "'Factory' is no IANA zone name, such as Europe/Berlin"),
        ("Mars/Olympus", "'Mars/Olympus' is no IANA zone name, such as Europe/Berlin"),
    ],
)
def test_a_name_that_is_not_known(name, said):
    with pytest.raises(InvalidInput) as raised:
        load_zone(name)
    assert (raised.value.field, raised.value.reason) == ("zone", said)


@pytest.mark.parametrize("name", ["Europe/Berlin", "UTC", "Etc/GMT+12", "America/Argentina/Ushuaia"])
def test_a_name_that_is_known(name):
    assert load_zone(name).key == name
