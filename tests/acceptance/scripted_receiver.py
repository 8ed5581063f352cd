"""The receiver of the acceptance tests is the one that the drills use."""

from reminders.operate.drills.scripted_receiver import ScriptedReceiver

__all__ = ["ScriptedReceiver"]
