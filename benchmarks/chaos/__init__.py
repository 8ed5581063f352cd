"""Chaos: thousands of deliveries while everything that can be killed or frozen is, and what came of it.

    python -m benchmarks.chaos --reminders 20000 --kills 500 --pace 1.2 --seed 1 --out DIR

`plan` draws the faults and `manners` the receiver's answers, both from the seed alone: a seed repeats what happens and
in which order, not the instant to the millisecond. `lines`, `servers`, `strikes` and `storm` do to a throw-away
installation what the plan says; `traffic` schedules, cancels and reschedules meanwhile, and keeps what it was promised;
`receiver` is a process of its own that notes every call. When all is calm again `evidence` reads the ledger, `findings`
holds it against what the receiver saw, and `report` writes it down. `run` puts them together. Exit code 1 says that
something was lost, repeated or broke a promise.
"""
