//! What is written: bytes that a compressing or deduplicating device cannot make light of, or can
//! to a stated degree.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

use crate::rng::{GOLDEN, stream};
use crate::spec::DataSpec;

/// The unit in which devices compress and deduplicate.
const CHUNK_BYTES: usize = 4096;

/// Fills the buffers of one worker, and makes each write different from all others.
#[derive(Debug)]
pub struct BufferFiller {
    rng: Xoshiro256PlusPlus,
    /// The share of each chunk that is random; the rest is zeros.
    random_share: f64,
    stamp: u64,
}

impl BufferFiller {
    /// Returns the filler of `worker`. Verifiable data starts out as random; what is written then
    /// comes from [`crate::verify::stamp`].
    #[must_use]
    pub fn new(data: &DataSpec, seed: u64, worker: u32) -> Self {
        let mut rng = stream(seed, "data", u64::from(worker));
        let random_share = match *data {
            DataSpec::Random {} | DataSpec::Verifiable {} => 1.0,
            DataSpec::Compressible { share } => 1.0 - share,
        };
        Self { stamp: rng.next_u64(), rng, random_share }
    }

    /// Fills `buffer` for the first time: of each 4 KiB, the stated share compresses away.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(CHUNK_BYTES) {
            let random_bytes = (chunk.len() as f64 * self.random_share).round() as usize;
            let (random, zeros) = chunk.split_at_mut(random_bytes.min(chunk.len()));
            self.rng.fill_bytes(random);
            zeros.fill(0);
        }
        self.restamp(buffer);
    }

    /// Changes 8 bytes of each 4 KiB of `buffer`, so that the next write is unlike anything written
    /// before. They are where the random part begins; data that compresses away wholly still keeps
    /// these 8 bytes.
    #[inline]
    pub fn restamp(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(CHUNK_BYTES) {
            // A Weyl sequence: it returns to a number only after all 2^64 have been used.
            self.stamp = self.stamp.wrapping_add(GOLDEN);
            let stamp = self.stamp.to_le_bytes();
            match chunk.first_chunk_mut() {
                Some(head) => *head = stamp,
                None => chunk.copy_from_slice(&stamp[..chunk.len()]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    use super::*;

    /// The share of `data` that a real compressor saves, compressing each 4 KiB for itself.
    fn saved_share(data: &[u8]) -> f64 {
        let compressed = |chunk: &[u8]| {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(chunk).unwrap();
            encoder.finish().unwrap().len()
        };
        let kept_bytes: usize = data.chunks(CHUNK_BYTES).map(compressed).sum();
        1.0 - kept_bytes as f64 / data.len() as f64
    }

    fn written(data: DataSpec, length_bytes: usize) -> Vec<u8> {
        let mut filler = BufferFiller::new(&data, 7, 0);
        let mut buffer = vec![1; length_bytes];
        filler.fill(&mut buffer);
        for _ in 0..100 {
            filler.restamp(&mut buffer);
        }
        buffer
    }

    #[test]
    fn random_data_does_not_compress() {
        assert!(saved_share(&written(DataSpec::Random {}, 1 << 20)) < 0.0);
        assert!(saved_share(&written(DataSpec::Verifiable {}, 1 << 20)) < 0.0);
    }

    #[test]
    fn a_real_compressor_saves_the_stated_share() {
        for share in [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0] {
            for length_bytes in [4096, 8192, 65536, 1 << 20] {
                let saved = saved_share(&written(DataSpec::Compressible { share }, length_bytes));
                assert!((saved - share).abs() < 0.03, "{share} of {length_bytes}: {saved}");
            }
        }
    }

    #[test]
    fn short_blocks_keep_the_share() {
        let zeros = written(DataSpec::Compressible { share: 0.75 }, 512)
            .iter()
            .filter(|&&byte| byte == 0)
            .count();
        assert!((384..390).contains(&zeros), "{zeros} of 512");
    }

    #[test]
    fn no_two_writes_share_a_chunk() {
        let mut seen: HashSet<Vec<u8>> = HashSet::new();
        for worker in 0..3 {
            for share in [0.0, 1.0] {
                let mut filler =
                    BufferFiller::new(&DataSpec::Compressible { share }, worker, worker as u32);
                let mut buffers = [vec![0; 16384], vec![0; 16384]];
                buffers.iter_mut().for_each(|buffer| filler.fill(buffer));
                for write in 0..200 {
                    let buffer = &mut buffers[write % 2];
                    filler.restamp(buffer);
                    for chunk in buffer.chunks(CHUNK_BYTES) {
                        assert!(seen.insert(chunk.to_vec()), "worker {worker}, write {write}");
                    }
                }
            }
        }
    }

    #[test]
    fn restamping_touches_8_bytes_of_each_chunk() {
        let mut filler = BufferFiller::new(&DataSpec::Random {}, 7, 0);
        let mut buffer = vec![0; 10_003];
        filler.fill(&mut buffer);
        let before = buffer.clone();
        filler.restamp(&mut buffer);
        let changed: Vec<usize> =
            (0..buffer.len()).filter(|&byte| buffer[byte] != before[byte]).collect();
        assert!(changed.iter().all(|byte| byte % CHUNK_BYTES < 8), "{changed:?}");
        assert!(changed.len() > 12, "{changed:?}");
        filler.restamp(&mut buffer[..3]);
        filler.restamp(&mut []);
    }
}
