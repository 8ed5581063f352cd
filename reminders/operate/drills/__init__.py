"""Rehearsals of the guarantees: each breaks something on purpose, and checks what the receiver and the ledger show.

    drill.py              what a drill is, and the record of one run
    catalogue.py          all of them, by name
    scene.py              what any drill works with: reminders of its own, a receiver, the ledger, the broker
    stack.py, lines.py    a throw-away installation whose servers and processes may be killed
    here.py               an installation that runs already, of which nothing is killed
    scripted_receiver.py  a receiver that does what the drill says

and one file for each family of drills.
"""
