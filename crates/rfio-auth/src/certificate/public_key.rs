//! Public keys in certificates and PEM files (SubjectPublicKeyInfo, RFC 5280).

use super::der::{OBJECT_IDENTIFIER, SEQUENCE, first};

/// A public key of a supported kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublicKey<'a> {
    /// An RSA key: modulus and exponent in DER (RFC 8017).
    Rsa(&'a [u8]),
    /// A point of the curve P-256.
    P256(&'a [u8]),
}

const BIT_STRING: u8 = 0x03;
/// rsaEncryption, 1.2.840.113549.1.1.1.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
/// id-ecPublicKey, 1.2.840.10045.2.1.
const ELLIPTIC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
/// prime256v1, 1.2.840.10045.3.1.7.
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];

impl<'a> PublicKey<'a> {
    /// Reads a SubjectPublicKeyInfo; `None` if it is invalid, or of another kind of key.
    pub fn read(info: &'a [u8]) -> Option<Self> {
        let (info, rest) = element(info, SEQUENCE)?;
        let (algorithm, bits) = element(info, SEQUENCE)?;
        let (kind, parameters) = element(algorithm, OBJECT_IDENTIFIER)?;
        let (bits, behind) = element(bits, BIT_STRING)?;
        // The first byte is the number of unused bits in the last one.
        let key = bits.strip_prefix(&[0])?;
        if !rest.is_empty() || !behind.is_empty() {
            return None;
        }
        match kind {
            RSA => Some(Self::Rsa(key)),
            ELLIPTIC if element(parameters, OBJECT_IDENTIFIER)? == (P256, &[]) => {
                Some(Self::P256(key))
            }
            _ => None,
        }
    }
}

/// Returns the content of the first element, which must have this tag, and the remaining bytes.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (element, rest) = first(bytes)?;
    (element.tag == tag).then_some((element.content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn p256(point: &[u8]) -> Vec<u8> {
        let mut info = vec![0x30, 0x59, 0x30, 0x13, 0x06, 0x07];
        info.extend_from_slice(ELLIPTIC);
        info.extend_from_slice(&[0x06, 0x08]);
        info.extend_from_slice(P256);
        info.extend_from_slice(&[0x03, 0x42, 0x00]);
        info.extend_from_slice(point);
        info
    }

    #[test]
    fn only_p256_points_are_read() {
        let point = [4; 65];
        let mut info = p256(&point);
        assert_eq!(PublicKey::read(&info), Some(PublicKey::P256(&point)));
        assert_eq!(PublicKey::read(&info[..info.len() - 1]), None);
        info[22] ^= 1;
        assert_eq!(PublicKey::read(&info), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..120),
            at in 0usize..91, bit in 0u8..8,
        ) {
            let _ = PublicKey::read(&bytes);
            let mut info = p256(&[4; 65]);
            info[at] ^= 1 << bit;
            let _ = PublicKey::read(&info);
        }
    }
}
