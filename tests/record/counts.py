"""Counts the messages of an archive in OTF2 with OTF2's own reader: counts.py ARCHIVE prints ranks, messages, bytes.
Debian's Python has the module otf2; the harness' own has not."""

import sys

import otf2
from otf2.enums import GroupType, Paradigm

with otf2.reader.open(sys.argv[1]) as trace:
    ranks = next(group for group in trace.definitions.groups
                 if group.group_type == GroupType.COMM_LOCATIONS and group.paradigm == Paradigm.MPI)
    sent = [event.msg_length for _, event in trace.events if isinstance(event, (otf2.events.MpiSend, otf2.events.MpiIsend))]
    print(len(ranks.members), len(sent), sum(sent))
