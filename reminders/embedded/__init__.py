"""Postgres and Redis for a laptop: started from wheels, shared by all processes of one home folder.

`running` starts what is missing or joins what already runs, and stops it when its last user leaves; `attach` only looks.
`kept_running` starts again what dies meanwhile, `throwaway_home` is a home for one run.
The map: `services` counts users and serialises starts and stops, `server` is what both servers have in common,
`postgres` and `redis` are the two servers, `lifeline` tells whether a server lives and ends it, `programs` finds the
executables, `placement` decides where a server's folder lies and as whom it runs, `watching` and `throwaway` are as said.
"""

from reminders.embedded.services import Services, attach, running
from reminders.embedded.throwaway import throwaway_home
from reminders.embedded.watching import kept_running

__all__ = ["Services", "attach", "kept_running", "running", "throwaway_home"]
