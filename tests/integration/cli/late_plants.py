"""Reminders brought into each state in which they are late, as scan, workers and operators bring them there."""

from reminders.domain.outcomes import Retry
from reminders.domain.retry_policy import Park
from reminders.ledger.finalizing import PostgresFinalize

AHEAD = "clock_timestamp() + interval '50 seconds'"
OURS = ("internal", "a fault of ours")


def change(stage, made, columns):
    """Move the row of `due` as scan and workers would."""
    stage.rows(f"UPDATE due SET lease_token = gen_random_uuid(), {columns} WHERE id = '{made.id}' RETURNING 1")


def place(stage, made, **columns):
    """Say something about the reminder's destination."""
    names, values = ", ".join(columns), ", ".join(columns.values())
    stage.rows(
        f"INSERT INTO destinations (id, tenant_id, channel, address, {names}) SELECT destination_id, tenant_id, channel, "
        f"destination, {values} FROM reminders WHERE id = '{made.id}' RETURNING 1"
    )


def no_dispatcher(stage, made, run):
    stage.rows("DELETE FROM dispatchers RETURNING 1")


def not_leased(stage, made, run):
    pass


def leased(stage, made, run):
    stage.lease()


def lease_ended(stage, made, run):
    stage.lease()
    change(stage, made, "wake_at = clock_timestamp()")


def published(stage, made, run):
    stage.publish()


def message_late(stage, made, run):
    stage.publish()
    change(stage, made, "wake_at = clock_timestamp()")


def calling(stage, made, run):
    stage.claim(made)
    stage.rows("UPDATE notification_deliveries SET claimed_at = claimed_at - interval '3 seconds' RETURNING 1")


def claim_ended(stage, made, run):
    calling(stage, made, run)
    change(stage, made, "wake_at = clock_timestamp()")


def retry(stage, made, run):
    stage.deliver(made, Retry("http_503", "service unavailable", 503), Park(3600.0, "deliver"))


def retry_ours(stage, made, run):
    stage.deliver(made, Retry(*OURS, blameless=True), Park(3600.0, "deliver"))


def given_back(stage, made, run):
    claim = stage.claim(made)
    assert PostgresFinalize(stage.database, worker="w").release_not_called_if_sending(claim, 60.0)


def channel_held(stage, made, run):
    stage.rows(
        f"INSERT INTO channel_holds (tenant_id, channel, hold_until, hold_reason) VALUES ('acme', 'webhook', {AHEAD}, 'no') RETURNING 1"
    )
    change(stage, made, f"wake_at = {AHEAD}")


def breaker(stage, made, run):
    place(
        stage,
        made,
        breaker_opened_at="clock_timestamp()",
        breaker_times="1",
        hold_until=AHEAD,
        hold_reason="'breaker open'",
    )
    assert stage.lease()[0] == []


def asked_to_wait(stage, made, run):
    place(stage, made, hold_until="clock_timestamp() + interval '2 hours'", hold_reason="'asked'")
    assert stage.lease()[0] == []


def times_out(stage, made, run):
    place(stage, made, timed_out_at="clock_timestamp()")
    change(stage, made, f"wake_at = {AHEAD}")


def put_off(stage, made, run):
    change(stage, made, f"status = 'pending', wake_at = {AHEAD}")


def paused(stage, made, run):
    run("pause", "--tenant", "acme", "--reason", "moving")
    assert stage.lease()[0] == []


def resumed(stage, made, run):
    paused(stage, made, run)
    run("resume", "--tenant", "acme")


def tenant_off(stage, made, run):
    assert run("tenant", "set", "acme", "--mode", "off", "--reason", "r").exit_code == 0
    assert stage.lease()[0] == []


def draining(stage, made, run):
    assert run("drain", "--tenant", "acme", "--rate", "1/m", "--reason", "r", "--no-watch").exit_code == 0
    assert stage.lease()[0] == []


def drain_stopped(stage, made, run):
    draining(stage, made, run)
    assert run("drain", "--tenant", "acme", "--stop", "--reason", "r").exit_code == 0


def cap(stage, made, run):
    change(
        stage,
        made,
        f"wake_at = {AHEAD}, turn_at = {AHEAD}, rate_id = gen_random_uuid(), waits_since = clock_timestamp()",
    )
    change(stage, made, "turn_at = wake_at")


def quiet_hours(stage, made, run):
    change(stage, made, "wake_at = clock_timestamp() + interval '7 hours'")
    change(stage, made, "quiet_until = wake_at")


PLANTED = (
    no_dispatcher, not_leased, leased, lease_ended, published, message_late, calling, claim_ended, retry, retry_ours, given_back,
    channel_held,
    breaker, asked_to_wait, times_out, put_off, paused, resumed, tenant_off, draining, drain_stopped, cap, quiet_hours,
)  # fmt: skip
