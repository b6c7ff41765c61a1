"""Two OpenSMs on a fabric, one of which is killed and comes back; random fabrics whose links and switches die under OpenSM."""

from __future__ import annotations

import json
import random
import re

from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .fabric import lacks, up

# Changes of each fabric; the same in each run.
SEED, FABRICS, CHANGES, SWITCHES = 20261130, 3, 4, 6
# Milliseconds between two looks of a standby at its master, and looks without an answer after which it takes over.
SETTINGS = "sminfo_polling_timeout 500\npolling_retry_number 2\nsweep_interval 1\n"
SHOWN = '"$VERBENA" fabric show dump --routes routes --json'


def cases() -> list[Case]:
    """Failover and handover; deaths."""
    return [Case("two OpenSMs", "", taken_over), Case("links and switches die under OpenSM", "", died)]


def taken_over(place: Place) -> Outcome:
    """The standby takes over from a killed master, and hands over to a better one that comes back; one is always master in the end."""
    settings = place.directory / "opensm.conf"
    settings.write_text(SETTINGS)
    start = ('start() { mkdir -p $2; env OSM_CACHE_DIR=$2 OSM_TMP_DIR=$2 "$VERBENA" fabric exec --node $1 opensm -F opensm.conf -p $3 -d 2 '
             "-f $2/log > $2/out 2>&1 & }; ")
    # The manager at a LID, as SMInfo shows it: guid and state.
    until = 'master() { until sminfo | grep -q "guid 0x$1, .*SMINFO_MASTER"; do sleep 0.1; done; sminfo; }; '
    standby = 'until saquery SMIR | grep -c "SMInfoRecord dump" | grep -q 2; do sleep 0.1; done'
    first, second = "0002000000000201", "0002000000000301"
    script = (f'{start}{until}start host1 one 9; a=$!; master {first[3:]}; start host2 two 3; b=$!; {standby}; echo pair; '
              # The process of OpenSM itself: `verbena fabric exec` becomes it.
              f'kill -9 $a; wait $a; master {second[3:]}; echo failover; start host1 three 9; a=$!; master {first[3:]}; echo handover; '
              "ibhosts | wc -l; kill $a $b; wait; true")
    ended = up(place, script, "--sm", "none")
    return lacks(ended, [r"^pair$", r"^failover$", r"^handover$", r"^2$"]) or passed("failover, handover")


def net(chance: random.Random) -> str:
    """A random fabric in ibsim's format: a ring and some chords, a host at each switch."""
    pairs = [(at, (at + 1) % SWITCHES) for at in range(SWITCHES)] + [tuple(chance.sample(range(SWITCHES), 2)) for _ in range(SWITCHES)]
    ports: list[list[str]] = [[f'[1] "host{at}"[1]'] for at in range(SWITCHES)]
    for one, other in pairs:
        first, second = len(ports[one]) + 1, len(ports[other]) + 1
        ports[one].append(f'[{first}] "switch{other}"[{second}]')
        ports[other].append(f'[{second}] "switch{one}"[{first}]')
    text = [f'Switch 16 "switch{at}"\n' + "\n".join(lines) + "\n" for at, lines in enumerate(ports)]
    text += [f'Hca 1 "host{at}"\n[1] "switch{at}"[1]\n' for at in range(SWITCHES)]
    return "\n".join(text)


def died(place: Place) -> Outcome:
    """OpenSM ends its sweep after each change, and its tables lead from each host to each other that links connect."""
    chance = random.Random(SEED)
    total = 0
    for number in range(FABRICS):
        file = place.directory / f"{number}.net"
        text = net(chance)
        file.write_text(text)
        steps = []
        for change in range(CHANGES):
            switch = chance.randrange(1, SWITCHES)
            # A switch that dies loses all of its links; else it is a link of the ring.
            ends = re.findall(rf'\[(\d+)\] "switch(?!{switch}\b)\d+"', text.split("\n\n")[switch]) if change % 2 else ["2"]
            cut = "; ".join(f'"$VERBENA" fabric fault switch{switch}:{port} down' for port in ends)
            mend = "; ".join(f'"$VERBENA" fabric fault switch{switch}:{port} up' for port in ends)
            sweep = ('rm -f log; OSM_CACHE_DIR=. OSM_TMP_DIR=. opensm -o -f log > out; grep -c "SUBNET UP" log; ibnetdiscover > dump; '
                     'for lid in $(sed -n "s/^Switch.* lid \\([0-9]*\\) .*/\\1/p" dump); do ibroute $lid; done > routes; ' + SHOWN)
            steps.append(f"{cut}; echo ====; {sweep}; {mend}")
        ended = up(place, "; ".join(steps), "--topology", str(file), "--node", "host0", "--sm", "none")
        if failure := lacks(ended, []):
            return failure
        for change, part in enumerate(ended.output.split("====")[1:]):
            sweeps, found = part.strip().split("\n", 1)
            shown = json.loads(found[found.index("{"):found.rindex("}") + 1])
            paths = shown["paths"]
            total += 1
            # One link of the ring separates no host.
            hosts = SWITCHES - change % 2
            if sweeps != "1" or paths["broken"] or paths["pairs"] < hosts * (hosts - 1):
                return failed(f"sweeps {sweeps}, {paths}", ended.evidence())
    return passed(f"{total} changes of {FABRICS} fabrics")
