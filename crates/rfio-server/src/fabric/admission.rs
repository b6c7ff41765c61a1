//! Admission of a data queue pair: it may be used only after it has received the one-time token
//! issued for it, in time.

use std::time::{Duration, Instant};

use verbena_rfio_auth::compare::are_equal;
use verbena_rfio_common::fabric::FabricError;
use verbena_rfio_common::random::random;

/// Length of a token in bytes.
pub const TOKEN_BYTES: usize = 32;

/// Lifetime of a token.
pub const TOKEN_LIFE: Duration = Duration::from_secs(10);

/// The state of admission.
#[derive(Debug)]
pub enum Admission {
    /// The expected token, and its deadline.
    Awaited([u8; TOKEN_BYTES], Instant),
    /// Admitted; the token is discarded.
    Admitted,
}

impl Admission {
    /// Creates a token, valid from `now` on.
    pub fn begin(now: Instant) -> (Self, [u8; TOKEN_BYTES]) {
        let token = random();
        (Self::Awaited(token, now + TOKEN_LIFE), token)
    }

    /// Checks the received token, which `shown` returns; it is called only while a token is
    /// expected and valid.
    ///
    /// # Errors
    /// [`FabricError::Late`] after the deadline, [`FabricError::BadEndpoint`] for a wrong token, or
    /// the error of `shown`.
    pub fn admit(
        &mut self,
        now: Instant,
        shown: impl FnOnce() -> Result<[u8; TOKEN_BYTES], FabricError>,
    ) -> Result<(), FabricError> {
        let Self::Awaited(token, until) = self else {
            return Ok(());
        };
        if now > *until {
            return Err(FabricError::Late("the token"));
        }
        if !are_equal(token, &shown()?) {
            return Err(FabricError::BadEndpoint(
                "it presented an invalid token".into(),
            ));
        }
        *self = Self::Admitted;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_valid_for_ten_seconds() {
        let begin = Instant::now();
        let ten = Duration::from_secs(10);
        for (passed, accepted) in [
            (Duration::ZERO, true),
            (ten, true),
            (ten + Duration::from_nanos(1), false),
            (ten * 100, false),
        ] {
            let (mut admission, token) = Admission::begin(begin);
            let verdict = admission.admit(begin + passed, || Ok(token));
            assert_eq!(verdict.is_ok(), accepted, "after {passed:?}");
            if let Err(error) = verdict {
                assert!(matches!(error, FabricError::Late(_)), "{error}");
                // It stays late: tokens that arrive later are not looked at.
                let later = admission.admit(begin + passed + ten, || panic!("looked at"));
                assert!(later.is_err());
            }
        }
    }

    #[test]
    fn an_admitted_peer_stays_admitted() {
        let begin = Instant::now();
        let (mut admission, token) = Admission::begin(begin);
        admission.admit(begin, || Ok(token)).unwrap();
        let later = begin + TOKEN_LIFE * 1000;
        admission
            .admit(later, || panic!("looked at twice"))
            .unwrap();
    }

    #[test]
    fn a_wrong_or_missing_token_is_refused() {
        let begin = Instant::now();
        let (mut admission, token) = Admission::begin(begin);
        let mut wrong = token;
        wrong[31] ^= 1;
        assert!(admission.admit(begin, || Ok(wrong)).is_err());
        let none = || Err(FabricError::Late("the token"));
        assert!(admission.admit(begin, none).is_err());
        assert!(matches!(admission, Admission::Awaited(..)));
        let (_, another) = Admission::begin(begin);
        assert!(admission.admit(begin, || Ok(another)).is_err());
    }
}
