//! Telling users of matrices that no vector code serves.

use cera_core::{CpuTier, KernelId};
use cera_quant::Format;

/// Warns, once for all of a model, of the formats whose kernel is plain code although the tier has vector code.
pub(crate) fn warn_of_plain_code(
    file: &str,
    tier: CpuTier,
    kernels: impl IntoIterator<Item = (Format, KernelId)>,
) {
    let plain = |kernel: &KernelId| kernel.tier == CpuTier::Scalar && tier != CpuTier::Scalar;
    let mut formats: Vec<&str> =
        kernels.into_iter().filter(|(_, kernel)| plain(kernel)).map(|(format, _)| format.label()).collect();
    formats.sort_unstable();
    formats.dedup();
    if !formats.is_empty() {
        let formats = formats.join(", ");
        tracing::warn!("{file}: the tier {tier} has no kernel of its own for {formats}: many times slower");
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use cera_core::KernelOp;
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    /// Collects what is logged.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("the log").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Log {
        type Writer = Log;

        fn make_writer(&'a self) -> Log {
            self.clone()
        }
    }

    fn said(tier: CpuTier, kernels: &[(Format, CpuTier)]) -> String {
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).without_time().finish();
        let kernels = kernels
            .iter()
            .map(|&(format, tier)| (format, KernelId { tier, op: KernelOp::Gemm(format), tile: (16, 8) }));
        tracing::subscriber::with_default(subscriber, || warn_of_plain_code("m.gguf", tier, kernels));
        let text = log.0.lock().expect("the log").clone();
        String::from_utf8(text).expect("UTF-8")
    }

    #[test]
    fn formats_without_vector_code_are_named_in_one_warning() {
        use CpuTier::{Avx2, Avx512Bf16, Avx512Vnni, Scalar};
        use Format::{MXFP4, Q4_0, Q4_K};
        let some = said(Avx2, &[(Q4_K, Scalar), (Q4_0, Avx2), (MXFP4, Scalar), (Q4_K, Scalar)]);
        assert_eq!(some.lines().count(), 1, "{some}");
        assert!(
            some.contains("WARN") && some.contains("avx2 has no kernel of its own for MXFP4, Q4_K:"),
            "{some}"
        );
        assert_eq!(said(Avx2, &[(Q4_0, Avx2)]), "");
        assert_eq!(said(Avx512Bf16, &[(Q4_0, Avx512Vnni)]), "");
        assert_eq!(said(Scalar, &[(Q4_0, Scalar)]), "");
    }
}
