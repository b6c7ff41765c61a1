//! A process joins the host's registry, and leaves it.

use crate::causes::delay_line;
use crate::emulation::{self, nodes::Nodes};
use crate::process::poller::Poller;
use crate::process::{CURRENT, Inbound, Member, Outbound, Process, thread};
use crate::roce::receive::Packets;
use std::os::fd::AsFd;
use std::sync::Arc;
use verbena_hca_memory::peer::Peer;
use verbena_hca_os::errno::Result;
use verbena_hca_shm::channel::Channel;
use verbena_hca_shm::registry::{self, Identity, Registry};

impl Process {
    /// Joins the host's registry and starts the progress thread, if that is not done yet.
    ///
    /// # Errors
    /// As [`Registry::enter`]; the system's.
    pub fn join(self: &Arc<Process>) -> Result<&Member> {
        if let Some(member) = self.membership.get() {
            return Ok(member);
        }
        let _joining = self.membership.begin_joining();
        if let Some(member) = self.membership.get() {
            return Ok(member);
        }
        let (registry, identity, listener) =
            Registry::enter(&registry::directory()).inspect_err(|error| {
                eprintln!(
                    "verbena: cannot use the registry {}: {}; set VERBENA_RUNTIME_DIR to a \
                     directory of your own",
                    registry::directory().display(),
                    registry::obstacle(*error)
                );
            })?;
        self.ports.open();
        self.ports.capture().call(&registry, identity);
        // Everything that can fail comes before this process becomes a visible member, so that the
        // next call starts from nothing.
        let started = Poller::new(self.activity.doorbell(), &listener)
            .and_then(|poller| thread::start(self, poller))
            .and_then(|begin| self.connect_to_self(identity).map(|()| begin));
        let begin = started.inspect_err(|error| {
            registry.leave(identity);
            if let Some(remedy) = error.remedy() {
                eprintln!("verbena: cannot reach other processes: {error}; {remedy}");
            }
        })?;
        let member = self.membership.set(Member {
            registry,
            identity,
            listener,
        });
        if emulation::own().is_some()
            && let Some(nodes) = Nodes::join(member.registry.path(), member.identity, |process| {
                member.registry.is_alive(process)
            })
        {
            let _ = self.nodes.set(nodes);
        }
        self.memory.is_harmless(member.registry.as_fd());
        self.memory.is_harmless(member.listener.as_fd());
        let _ = begin.send(());
        self.look_at_ports();
        self.follow_link();
        // SAFETY: the handler is a function of this library, which stays loaded.
        unsafe { libc::atexit(leave_at_exit) };
        Ok(member)
    }

    /// Makes the channel to this process itself, which needs no handshake.
    fn connect_to_self(&self, identity: Identity) -> Result<()> {
        let doorbell = self.activity.doorbell().share()?;
        let peer = Arc::new(Peer::own(
            identity,
            self.memory.contexts().clone(),
            self.memory.arena(),
            doorbell,
            self.forced,
        ));
        let (channel, file) = Channel::create()?;
        let other_end = Channel::of_peer(file.as_fd().try_clone_to_owned()?)?;
        let can_pull = peer.pull_ability();
        self.channels
            .add_inbound(Arc::new(Inbound::new(peer.clone(), other_end)));
        self.channels
            .add_outbound(identity, Arc::new(Outbound::new(peer, channel, can_pull)));
        Ok(())
    }

    /// Leaves the host: releases the registry slot.
    pub fn leave(&self) {
        if self.memory.is_inherited() || self.activity.stop() {
            return;
        }
        Packets::of(self).answer_last();
        delay_line::send_all();
        if let Some(member) = self.membership.get() {
            member.registry.leave(member.identity);
        }
    }
}

extern "C" fn leave_at_exit() {
    if let Some(process) = CURRENT.get() {
        process.leave();
    }
}
