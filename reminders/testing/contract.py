"""The contract as one class of checks."""

from __future__ import annotations

from reminders.testing.body_checks import BodyChecks
from reminders.testing.call_checks import CallChecks
from reminders.testing.form_checks import FormChecks
from reminders.testing.look_up_checks import LookUpChecks
from reminders.testing.neighbour_checks import NeighbourChecks
from reminders.testing.privacy_checks import PrivacyChecks
from reminders.testing.process_checks import ProcessChecks


class ProviderContract(FormChecks, BodyChecks, CallChecks, ProcessChecks, NeighbourChecks, PrivacyChecks, LookUpChecks):
    """Every rule of a provider, as tests that a subclass inherits. See `reminders.testing`."""
