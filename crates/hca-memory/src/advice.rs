//! Advice about memory that is paged in on demand: ibv_advise_mr(3).

use crate::domain::Pd;
use crate::explain::explain;
use crate::resolve::{AccessRequest, Refusal, check, grant};
use std::sync::atomic::Ordering::SeqCst;
use verbena_abi::*;
use verbena_hca_os::errno::Result;
use verbena_hca_os::populate::{Use, populate};
use verbena_hca_os::refused;

impl Pd {
    /// Pages in these ranges, which must lie in on-demand regions of the domain. The pages are the
    /// process's own, so they are present on return, whether or not the caller asked to wait.
    ///
    /// # Errors
    /// ENOTSUP for unknown advice; EFAULT for a key that does not exist and a range that leaves its
    /// region or the address space; EINVAL for a region that is not on demand; EPERM for a region
    /// of another domain, and for write advice where the region does not allow writing.
    pub fn advise(&self, advice: ibv_advise_mr_advice, ranges: &[ibv_sge]) -> Result<()> {
        let intent = match advice {
            IBV_ADVISE_MR_ADVICE_PREFETCH => Some(Use::Read),
            IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE => Some(Use::Write),
            // The adapter can access all pages in memory already.
            IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT => None,
            other => {
                return Err(refused!(
                    EOPNOTSUPP,
                    "advice is {other}, which is unknown: give IBV_ADVISE_MR_ADVICE_PREFETCH, \
                     _PREFETCH_WRITE or _PREFETCH_NO_FAULT"
                ));
            }
        };
        for range in ranges {
            let address = self.demanded(range, intent)?;
            if let Some(intent) = intent {
                populate(address, u64::from(range.length), intent)?;
            }
        }
        Ok(())
    }

    /// Returns the address of the range, if advice on it is allowed.
    fn demanded(&self, range: &ibv_sge, intent: Option<Use>) -> Result<u64> {
        let record = self.memory().keys().record(range.lkey);
        let access_request = AccessRequest::to_buffer(range.lkey, self.number(), 0);
        let length = u64::from(range.length);
        let section = self.memory().own_marks().enter(range.lkey);
        let resolved = match grant(&section, record, access_request, range.addr, length) {
            Ok(resolved) => resolved,
            Err(refusal) => {
                let is_foreign = refusal == Refusal::Key
                    && range.lkey != 0
                    && record.key.load(SeqCst) == range.lkey;
                let why =
                    explain("lkey", record, access_request, range.addr, length).unwrap_or_default();
                return Err(match is_foreign {
                    true => refused!(EPERM, "{why}"),
                    false => refused!(EFAULT, "{why}"),
                });
            }
        };
        let allows = |access| {
            let access = access_request.access | access;
            let access_request = AccessRequest {
                access,
                ..access_request
            };
            check(record, access_request, range.addr, length).is_ok()
        };
        if !allows(IBV_ACCESS_ON_DEMAND) {
            return Err(refused!(
                EINVAL,
                "lkey {:#x} is not of an on-demand region: register it with IBV_ACCESS_ON_DEMAND",
                range.lkey
            ));
        }
        if intent == Some(Use::Write) && !allows(IBV_ACCESS_LOCAL_WRITE) {
            return Err(refused!(
                EPERM,
                "IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, and lkey {:#x} lacks IBV_ACCESS_LOCAL_WRITE",
                range.lkey
            ));
        }
        Ok(resolved.address())
    }
}
