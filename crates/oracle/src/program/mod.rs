//! Programs: the verbs calls of each process and the synchronisation points between them.
//!
//! A program is a list of [`Step`]s. Each process makes its calls of a step in order, different
//! processes concurrently; then all wait until the step's work is done. A step of one call is
//! sequential, a step of several is concurrent. Object identifiers are never reused, so that a
//! program remains valid when lines are removed: calls with an object that does not exist are
//! skipped.

pub mod rule;
pub mod text;
pub mod words;

use words::{bits, choice, identity, worded};

identity! {
    /// A process of the program.
    ProcessId = "p";
    /// A protection domain.
    PdId = "pd";
    /// A memory region.
    MrId = "mr";
    /// A memory window.
    MwId = "mw";
    /// A completion queue.
    CqId = "cq";
    /// A shared receive queue.
    SrqId = "srq";
    /// A queue pair.
    QpId = "qp";
    /// An XRC domain as opened by one process.
    XrcdId = "xrcd";
}

bits! {
    /// Access rights of regions, windows and queue pairs (`ibv_reg_mr(3)`).
    pub struct Access {
        /// The adapter may write for local requests.
        LOCAL_WRITE = 1, "lw";
        /// Peers may write.
        REMOTE_WRITE = 2, "rw";
        /// Peers may read.
        REMOTE_READ = 4, "rr";
        /// Peers may use atomics.
        REMOTE_ATOMIC = 8, "ra";
        /// Windows may be bound to the region.
        MW_BIND = 16, "mb";
    }
}

bits! {
    /// Flags of a send request (`ibv_post_send(3)`).
    pub struct Flags {
        /// Wait for earlier reads and atomics.
        FENCE = 1, "fence";
        /// Success generates a completion.
        SIGNALED = 2, "signaled";
        /// Raise a solicited event at the receiver.
        SOLICITED = 4, "solicited";
        /// Copy the data during the call.
        INLINE = 8, "inline";
    }
}

choice! {
    /// Transport services.
    pub enum Service {
        /// Reliable connection.
        Rc = "rc",
        /// Unreliable connection.
        Uc = "uc",
        /// Unreliable datagram.
        Ud = "ud",
        /// XRC initiator (sender).
        XrcSend = "xrc_send",
        /// XRC target (receiver).
        XrcReceive = "xrc_receive",
    }
}

choice! {
    /// States that `modify` reaches without other attributes.
    pub enum Target {
        /// To RESET.
        Reset = "reset",
        /// To ERR.
        Err = "err",
        /// RTS to SQD, with a request for the drained event.
        Sqd = "sqd",
        /// SQD or SQE to RTS.
        Rts = "rts",
    }
}

choice! {
    /// How the processes of a program wait for completions.
    pub enum Waits {
        /// By polling.
        Polling = "polling",
        /// By events, polling after each.
        Events = "events",
    }
}

choice! {
    /// Types of memory windows.
    pub enum WindowType {
        /// Bound by `ibv_bind_mw`.
        One = "1",
        /// Bound by a work request.
        Two = "2",
    }
}

/// The key in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A region's.
    Mr(MrId),
    /// A window's.
    Mw(MwId),
    /// An invalid key.
    Bad,
}

/// A scatter/gather entry: bytes of the process's arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sge {
    /// Offset in the arena.
    pub at: u32,
    /// Length in bytes.
    pub len: u32,
    /// The local key.
    pub key: Key,
}

/// The remote side of an RDMA operation: an offset in the peer's arena and a remote key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Remote {
    /// Offset in the arena.
    pub at: u32,
    /// The remote key.
    pub key: Key,
}

worded! {
    /// The operation of a send request.
    pub enum Operation {
        /// SEND.
        Send = "send" {},
        /// SEND with immediate.
        SendImm = "send_imm" { imm: u32 },
        /// SEND with invalidate.
        SendInv = "send_inv" { key: Key },
        /// RDMA WRITE.
        Write = "write" { to: Remote },
        /// RDMA WRITE with immediate.
        WriteImm = "write_imm" { to: Remote, imm: u32 },
        /// RDMA READ.
        Read = "read" { from: Remote },
        /// Compare and swap of 8 bytes.
        CmpSwap = "cmp_swap" { at: Remote, compare: u64, swap: u64 },
        /// Fetch and add of 8 bytes.
        FetchAdd = "fetch_add" { at: Remote, add: u64 },
        /// Local invalidate.
        LocalInv = "local_inv" { key: Key },
        /// Bind of a type 2 window.
        BindMw = "bind_mw" { mw: MwId, mr: MrId, at: u32, len: u32, access: Access },
    }
}

/// A send request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SendWr {
    /// `wr_id`, unique in the program.
    pub id: u64,
    /// The operation.
    pub operation: Operation,
    /// Local memory.
    pub sges: Vec<Sge>,
    /// Its flags.
    pub flags: Flags,
    /// UD: the destination queue pair.
    pub to: Option<QpId>,
    /// XRC: the destination shared receive queue.
    pub srq: Option<SrqId>,
}

/// A receive request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecvWr {
    /// `wr_id`, unique in the program.
    pub id: u64,
    /// The memory for the message.
    pub sges: Vec<Sge>,
}

worded! {
    /// A call that a process makes, or an action on it.
    pub enum Action {
        /// `ibv_alloc_pd`.
        AllocPd = "alloc_pd" { pd: PdId },
        /// `ibv_dealloc_pd`.
        DeallocPd = "dealloc_pd" { pd: PdId },
        /// `ibv_reg_mr`.
        RegMr = "reg_mr" { mr: MrId, pd: PdId, at: u32, len: u32, access: Access },
        /// `ibv_rereg_mr` of all attributes.
        ReregMr = "rereg_mr" { mr: MrId, pd: PdId, at: u32, len: u32, access: Access },
        /// `ibv_dereg_mr`.
        DeregMr = "dereg_mr" { mr: MrId },
        /// `ibv_alloc_mw`.
        AllocMw = "alloc_mw" { mw: MwId, pd: PdId, kind: WindowType },
        /// `ibv_dealloc_mw`.
        DeallocMw = "dealloc_mw" { mw: MwId },
        /// `ibv_bind_mw`, for windows of type 1.
        BindMw = "bind_mw" { qp: QpId, id: u64, mw: MwId, mr: MrId, at: u32, len: u32,
            access: Access },
        /// `ibv_create_cq`.
        CreateCq = "create_cq" { cq: CqId, depth: u32 },
        /// `ibv_destroy_cq`.
        DestroyCq = "destroy_cq" { cq: CqId },
        /// `ibv_create_srq`.
        CreateSrq = "create_srq" { srq: SrqId, pd: PdId, depth: u32 },
        /// `ibv_create_srq_ex` of an XRC queue.
        CreateXrcSrq = "create_xrc_srq" { srq: SrqId, pd: PdId, xrcd: XrcdId, cq: CqId,
            depth: u32 },
        /// `ibv_modify_srq`: arms the limit event.
        ArmSrq = "arm_srq" { srq: SrqId, limit: u32 },
        /// `ibv_destroy_srq`.
        DestroySrq = "destroy_srq" { srq: SrqId },
        /// `ibv_open_xrcd` of the program's file of this number.
        OpenXrcd = "open_xrcd" { xrcd: XrcdId, file: u32 },
        /// `ibv_close_xrcd`.
        CloseXrcd = "close_xrcd" { xrcd: XrcdId },
        /// `ibv_create_qp`.
        CreateQp = "create_qp" { qp: QpId, service: Service, pd: PdId, send_cq: CqId, recv_cq: CqId,
            srq: Option<SrqId>, all_signaled: bool },
        /// `ibv_create_qp_ex` of an XRC target.
        CreateXrcTarget = "create_xrc_target" { qp: QpId, xrcd: XrcdId },
        /// `ibv_destroy_qp`.
        DestroyQp = "destroy_qp" { qp: QpId },
        /// RESET to INIT.
        Init = "init" { qp: QpId, access: Access },
        /// INIT to RTR, with this peer.
        Rtr = "rtr" { qp: QpId, peer: QpId, psn: u32, rnr_timer: u8 },
        /// RTR to RTS.
        Rts = "rts" { qp: QpId, psn: u32, retry: u8, rnr_retry: u8 },
        /// Another state change.
        Modify = "modify" { qp: QpId, to: Target },
        /// New access rights of a queue pair (IBV_QP_ACCESS_FLAGS in RTS).
        SetAccess = "set_access" { qp: QpId, access: Access },
        /// `ibv_post_send` of a list.
        PostSend = "post_send" { qp: QpId, wrs: Vec<SendWr> },
        /// `ibv_post_recv` of a list.
        PostRecv = "post_recv" { qp: QpId, wrs: Vec<RecvWr> },
        /// `ibv_post_srq_recv` of a list.
        PostSrqRecv = "post_srq_recv" { srq: SrqId, wrs: Vec<RecvWr> },
        /// Writes a pattern to the process's memory.
        Fill = "fill" { at: u32, len: u32, tag: u32 },
        /// Discards the pages, which then read as zero (`madvise(MADV_DONTNEED)`).
        DontNeed = "dontneed" { at: u32, len: u32 },
                /// Waits this many microseconds.
        Spin = "spin" { us: u32 },
        /// The process forks; the child compares its memory, overwrites it, and ends.
        Fork = "fork" {},
        /// `kill -9`.
        Kill = "kill" {},
        /// SIGSTOP while the other processes make the calls of this step, then SIGCONT.
        Pause = "pause" {},
    }
}

impl Action {
    /// Checks that every range is within an arena of this size.
    ///
    /// # Errors
    ///
    /// A message with the invalid range.
    pub fn check(&self, arena: u32) -> Result<(), String> {
        let inside = |at: &u32, len: &u32| match u64::from(*at) + u64::from(*len) {
            end if end <= u64::from(arena) => Ok(()),
            _ => Err(format!(
                "{at}+{len} is not within the arena of {arena} bytes"
            )),
        };
        match self {
            Action::RegMr { at, len, .. }
            | Action::ReregMr { at, len, .. }
            | Action::Fill { at, len, .. }
            | Action::DontNeed { at, len } => inside(at, len),
            Action::PostSend { wrs, .. } => wrs.iter().try_for_each(|wr| {
                let near = |remote: &Remote| inside(&remote.at, &wr.length());
                wr.sges
                    .iter()
                    .try_for_each(|sge| inside(&sge.at, &sge.len))?;
                match &wr.operation {
                    Operation::Write { to } | Operation::WriteImm { to, .. } => near(to),
                    Operation::Read { from } => near(from),
                    Operation::CmpSwap { at, .. } | Operation::FetchAdd { at, .. } => {
                        inside(&at.at, &8)
                    }
                    _ => Ok(()),
                }
            }),
            Action::PostRecv { wrs, .. } | Action::PostSrqRecv { wrs, .. } => {
                let mut sges = wrs.iter().flat_map(|wr| &wr.sges);
                sges.try_for_each(|sge| inside(&sge.at, &sge.len))
            }
            _ => Ok(()),
        }
    }
}

/// A call and its process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// The process.
    pub by: ProcessId,
    /// The action.
    pub action: Action,
}

/// The calls between two synchronisation points.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Step {
    /// In each process's order.
    pub calls: Vec<Call>,
}

/// A program and the size of its processes' memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Program {
    /// Its origin.
    pub comment: String,
    /// Number of processes.
    pub processes: u16,
    /// Size of each process's arena in bytes.
    pub arena: u32,
    /// How processes wait for completions.
    pub waits: Waits,
    /// Rules about the processes' adapters.
    pub rules: Vec<rule::Rule>,
    /// The steps.
    pub steps: Vec<Step>,
}

impl Program {
    /// Iterates over all calls, in text order.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.steps.iter().flat_map(|step| &step.calls)
    }
}
