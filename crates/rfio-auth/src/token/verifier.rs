//! The cryptography provider of `jsonwebtoken`: ring, which TLS uses as well. It implements only
//! the accepted algorithms, so a token's header cannot select another one.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};

/// Accepted signature algorithms.
const ALGORITHMS: [(Algorithm, AlgorithmFamily); 2] = [
    (Algorithm::RS256, AlgorithmFamily::Rsa),
    (Algorithm::ES256, AlgorithmFamily::Ec),
];

/// Returns the algorithm of a key, if it is an accepted one.
pub fn algorithm_of(key: &DecodingKey) -> Option<Algorithm> {
    let of_family = |(_, family): &&(Algorithm, AlgorithmFamily)| *family == key.family();
    ALGORITHMS
        .iter()
        .find(of_family)
        .map(|(algorithm, _)| *algorithm)
}

/// Installs the provider for this process.
pub fn install() {
    static PROVIDER: CryptoProvider = CryptoProvider {
        signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
        verifier_factory: make,
        key_utils: KeyUtils::new_unimplemented(),
    };
    // It fails if it was installed before.
    let _ = PROVIDER.install_default();
}

fn make(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    match algorithm_of(key) {
        Some(fitting) if fitting == *algorithm => Ok(Box::new(RingVerifier {
            algorithm: fitting,
            key: key.clone(),
        })),
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}

struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let verdict = match (self.algorithm, self.key.kind()) {
            (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, e }) => {
                // JWKS of some issuers have leading zeros, which ring rejects.
                let n = &n[n.iter().take_while(|&&byte| byte == 0).count()..];
                RsaPublicKeyComponents { n, e: &e[..] }.verify(
                    &RSA_PKCS1_2048_8192_SHA256,
                    message,
                    signature,
                )
            }
            (Algorithm::RS256, DecodingKeyKind::SecretOrDer(der)) => {
                UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, der).verify(message, signature)
            }
            (Algorithm::ES256, DecodingKeyKind::SecretOrDer(point)) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            _ => Err(ring::error::Unspecified),
        };
        verdict.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
