//! The adapter that packets are received for. Calls through these traits are static.

use super::packet::ReceivedPacket;
use super::port::Port;
use crate::counters::Counters;
use std::sync::Arc;
use verbena_hca_os::errno::Result;
use verbena_wire::middles::Middles;

/// A queue pair that sends and receives packets.
pub trait QueuePair: Send + Sync {
    /// Returns its number.
    fn number(&self) -> u32;
    /// Handles a packet that a switch has marked.
    fn note_congestion(&self, received: &ReceivedPacket<'_>);
    /// Handles the peer's notification that packets met congestion.
    fn take_congestion_notification(self: &Arc<Self>, received: &ReceivedPacket<'_>);
    /// Delivers a datagram.
    fn take_datagram_packet(self: &Arc<Self>, received: &ReceivedPacket<'_>);
    /// Serves a request.
    fn serve_packet(self: &Arc<Self>, received: &ReceivedPacket<'_>);
    /// Serves consecutive middle packets, of which `first` is the first, if that has the same
    /// effect as to serve each. Returns whether it has served them.
    fn serve_middles(self: &Arc<Self>, first: &ReceivedPacket<'_>, middles: &Middles<'_>) -> bool;
    /// Handles a response or an acknowledgement.
    fn take_response(self: &Arc<Self>, received: &ReceivedPacket<'_>);
    /// Sends pending answers. Returns whether there are more.
    fn answer_by_packets(self: &Arc<Self>) -> bool;
}

/// The adapter of a process.
pub trait Adapter: Send + Sync + Sized + 'static {
    /// Its queue pairs.
    type QueuePair: QueuePair;
    /// Returns the RoCE port, if there is one.
    fn port(&self) -> Option<&Port>;
    /// Returns the counters.
    fn counters(&self) -> &Counters;
    /// Returns the queue pair with a number.
    fn queue_pair(&self, number: u32) -> Option<Arc<Self::QueuePair>>;
    /// Returns the queue pairs that receive a datagram to a group at a port.
    fn members(&self, port: u8, group: &[u8; 16]) -> Vec<Arc<Self::QueuePair>>;
    /// Returns whether the process ends.
    fn is_stopping(&self) -> bool;
    /// Wakes the progress thread.
    fn wake(&self);
    /// Returns the slot of this process.
    ///
    /// # Errors
    /// ENODEV without a RoCE port; ENOMEM when no slot is left.
    fn management_slot(self: &Arc<Self>) -> Result<u32>;
}
