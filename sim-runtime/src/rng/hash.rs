//! Hashes: of words, bytes and names. The same on every machine and in every run.

/// Mixes two words into one. The mixer behind every field, identity and digest.
///
/// The finaliser of splitmix64 (Steele, Lea, Flood 2014) over `a * odd + b`.
#[inline]
pub const fn mix(a: u64, b: u64) -> u64 {
    let mut z = a.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(b).wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Multiplies to 128 bits and folds: two words at the price of one multiplication.
#[inline]
pub(crate) const fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128).wrapping_mul(b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

const HASH: [u64; 4] =
    [0xA076_1D64_78BD_642F, 0xE703_7ED1_A0B4_28DB, 0x8EBC_6AF0_9C88_C6E3, 0x5899_65CC_7537_4CC3];

/// A 64-bit hash of `bytes`; every byte and the length matter. Two lanes, so that the multiplications overlap.
pub fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
    let mut left = mix(seed, bytes.len() as u64);
    let mut right = left ^ HASH[2];
    let (blocks, rest) = bytes.as_chunks::<32>();
    for block in blocks {
        let [a, b, c, d] = words(block);
        left = fold(a ^ HASH[0] ^ left, b ^ HASH[1]).wrapping_add(left.rotate_left(23));
        right = fold(c ^ HASH[2] ^ right, d ^ HASH[3]).wrapping_add(right.rotate_left(29));
    }
    if !rest.is_empty() {
        // The last 32 bytes, some of them for the second time; the length tells such inputs apart.
        let [a, b, c, d] = match bytes.last_chunk() {
            Some(block) => words(block),
            None => padded(rest),
        };
        left = fold(a ^ HASH[0] ^ left, b ^ HASH[1]).wrapping_add(left.rotate_left(23));
        right = fold(c ^ HASH[2] ^ right, d ^ HASH[3]).wrapping_add(right.rotate_left(29));
    }
    mix(left, right)
}

#[cold]
fn padded(bytes: &[u8]) -> [u64; 4] {
    let mut block = [0; 32];
    block[..bytes.len()].copy_from_slice(bytes);
    words(&block)
}

#[inline]
fn words(block: &[u8; 32]) -> [u64; 4] {
    let (words, _) = block.as_chunks::<8>();
    [0, 1, 2, 3].map(|at| u64::from_le_bytes(words[at]))
}

/// A hash of a name that can be computed in a constant.
pub const fn hash_name(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let mut hash = 0xCBF2_9CE4_8422_2325;
    let mut at = 0;
    while at < bytes.len() {
        hash = mix(hash, bytes[at] as u64);
        at += 1;
    }
    hash
}
