"""Less common rules of the verbs interface: programs that use features which the specification and the man pages
describe and most programs never use, on every path.

Faults that each program would find:

  windows         a write through the window of a region that was re-registered for other pages reaches
                  memory without remote rights; re-registration and a peer's invalidation wait for each
                  other for ever; a bind takes the whole key, or does not return it; a type 2 window is
                  bound to nothing, or unbound that way; a type 1 window is bound by a posted request; the rkey
                  of a window is accepted as an lkey; a bind has access flags that mean nothing
  memory          mremap of deregistered memory grows into another region; pages stay shared after the
                  last deregistration, or after re-registration for others; MADV_DONTNEED does not zero
                  them, MADV_FREE is refused; each registration reads the whole list of mappings; a region
                  of no bytes is refused; a key comes back after 256 uses; a message for a buffer that was
                  unmapped kills the receiver
  incarnation     after RESET and another connection a message of the old one arrives, or the bytes that have
                  overwritten it
  pulls           a sender that destroys its queue pair, resets it or flushes it and fills its buffer anew changes
                  the received message; a sender that deregisters or dies fails the receiver's request
  fences          a peer writes on after RESET, the error state, or the withdrawal of its rights
  unreliable      after an unreliable message without a receive none arrives; one that is too long, or a
                  datagram, takes the receive with it
  xrc             after RNR and a new connection messages are acknowledged and lost; the private domains of
                  two processes are one
  waking          an event that never comes; a queue pair that waits for space which there is
  armed           a queue that was armed raises no event once others have been polled for long
  stopped         a stopped process hangs all programs that start, for each connects to all; a stopped
                  writer writes on after deregistration, or is disconnected for the sake of another region
  invalidation    a peer, or a queue pair, of another connection or domain invalidates a window; an
                  invalidation that is refused is NAKed
  limits          max_pd, max_ah, max_srq, max_cq, max_qp are not enforced; queue pairs, and XRC targets,
                  cost the more the more there are; a request to no queue pair starts thousands of threads
  forks           fork copies memory that is registered, or was, at once, and takes a hundred times as long;
                  where there is no memory for that the child shares it
  sqd             the drained event comes with half a message sent
  faults          a requester has its NAK while the responder is well, and a busy responder never gets
                  its error; a write with immediate data and a wrong key flushes the receive;
                  max_dest_rd_atomic is ignored; an inline atomic needs no key; an overrun completion
                  queue leaves its queue pairs as they are
  peers           a peer's doorbell is a pipe or a descriptor that blocks or kills the process that rings; a peer
                  whose memory holds one value hangs the process that posts to it
  ends            requests that a peer had acknowledged when it ended fail
  settled         requests that a peer has served are flushed by a transition to the error state
  answers         a request completes after the peer's answer to it
  fault_rows      a fault of the responder has other consequences on one path than on another
  rings           a reader goes on for as long as its peer writes
  flush           a FLUSH asks for no bytes for any arguments, needs a right of the queue pair, or is refused
                  for a range where the whole region is meant
  sizes           a completion is lost or duplicated when its queue is resized; a shared queue that could not be
                  resized has another limit
  registration    a region under another address is reached at its original one; a region of no memory is written
  buffers         a part of a buffer of the library is not registered, or one outside it is, or in another domain
  batches         an operation of the extended interface, or a field of the extended completion queue, is another
                  than that of the classic one
  nodes           a program that was built against rdma-core 57 to 65 and asks for a private name does not start
  sysfs           a family of calls that sees other files than the others do, or a file that contradicts the verbs
  descriptors     the descriptor of a channel or of asynchronous events polls, blocks, forks or reads otherwise than
                  the kernel's
  probes          a query for a feature is logged as a refusal, or has another answer than programs continue from
  names           a name, a rate or a file of sysfs that rdma-core's own library answers otherwise
  kernel_structures  a field that rdma-core's own library copies otherwise, or leaves alone
  tables          the table of GIDs disagrees with its entries; a clock goes back
  refusals        a refusal without its line, or with two, or one that names neither call nor attribute; a line
                  without VERBENA_LOG, or beside VERBENA_LOG_FILE; no hint at --link roce for a RoCE address
  threads         a thread of the adapter maps memory after the call that started it
"""

from __future__ import annotations

from pathlib import Path

from harness import c_program
from harness.build_tree import LIBRARIES, PATHS
from harness.case import Case
from harness.requirement import COMPILER, VERBS_HEADERS

TITLE = "less common rules of the verbs interface"
REQUIRES = [COMPILER, VERBS_HEADERS]

HERE = Path(__file__).resolve().parent
# Most take less than a second; the longest a tenth of this, a third on a machine that is very busy.
SECONDS = 180
PROGRAMS = ("windows", "memory", "incarnation", "pulls", "fences", "unreliable", "xrc", "waking", "armed",
            "stopped", "invalidation", "limits", "forks", "sqd", "faults", "peers", "ends", "rings", "flush", "refusals",
            "sizes", "registration", "buffers", "batches", "settled", "answers", "fault_rows")
# Programs that call the library and involve no other process: they run on one path only.
ALONE = ("sysfs", "descriptors", "probes", "names", "kernel_structures", "tables", "threads")
# Linked against the adapter's library, for the distribution's lacks the names.
AGAINST_OURS = (f"-L{LIBRARIES}", f"-Wl,-rpath,{LIBRARIES}", "-libverbs")


def cases() -> list[Case]:
    """Each program, each test, each path."""
    return [case for programs, paths in ((PROGRAMS, PATHS), (ALONE, PATHS[:1])) for program in programs
            for case in c_program.table(HERE / f"{program}.c", paths, SECONDS)
            ] + c_program.table(HERE / "nodes.c", PATHS[:1], SECONDS, libraries=AGAINST_OURS)
