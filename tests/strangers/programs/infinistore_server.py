"""InfiniStore's server where /proc/self/oom_score_adj may not be written, as in many containers: it ends otherwise."""

import infinistore.server as server

allowed = server.prevent_oom


def prevent_oom():
    try:
        allowed()
    except PermissionError:
        pass


server.prevent_oom = prevent_oom
server.main()
