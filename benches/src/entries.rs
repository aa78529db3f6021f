//! The benches, in tables.

use cera_core::{F32Op, KernelOp, KernelTable};
use cera_quant::Format;
use cera_quant::acts::ActFormat;
use cera_quant::ops::{Activation, RopePairs};
use cera_quant::pack::packed_bytes;

use crate::work::{Attention, Dequantize, Gated, Pack, Product, Quantize, RmsNorm, Rope};
use crate::{Amount, Entry, Work};

/// Weight rows and elements per row of every matrix: about a projection of a model of one billion weights.
const M: usize = 1024;
const K: usize = 2048;

/// Tokens of a product with several.
const N: usize = 32;

/// Bytes over which weights are spread that are to come from memory: more than a last-level cache has for one core.
const COLD: usize = 256 << 20;

/// Heads of attention, positions of its cache, elements of a head.
const ATTENTION: (usize, usize, usize) = (4, 1024, 64);

/// The checksums of a weight format: its products with several tokens and with one, its packed and its expanded form.
struct OfFormat(Format, [u64; 4]);

const FORMATS: [OfFormat; Format::COUNT] = [
    OfFormat(
        Format::F32,
        [0xa35a_7de3_2f18_e15c, 0x5afa_da6d_d093_3f2c, 0xf5ce_f2dd_c046_a228, 0x1b85_ddb4_43d4_74c0],
    ),
    OfFormat(
        Format::F16,
        [0x540d_c62b_c7d7_ff5e, 0x4fa6_a65d_04af_5d7a, 0xd148_d664_d5e3_0fd5, 0x50f8_2cc5_01aa_2932],
    ),
    OfFormat(
        Format::BF16,
        [0x371d_fd64_e565_910c, 0x61b5_8e20_7e07_06f7, 0x6228_854b_80e7_f1d8, 0x3584_67c0_c95a_8fd4],
    ),
    OfFormat(
        Format::Q4_0,
        [0xca1f_9418_6638_02e5, 0xdca9_82e0_db93_7b26, 0x1755_734e_a030_d227, 0x7cf0_01d9_a342_e2f4],
    ),
    OfFormat(
        Format::Q4_1,
        [0xb487_f01b_a0b2_fd1f, 0x06d4_0c4c_b365_cf2f, 0x0ed4_2195_74d4_71ca, 0x854f_3bb1_c60a_c6c1],
    ),
    OfFormat(
        Format::Q5_0,
        [0x5d5a_a590_05c0_e499, 0x13dd_dc62_42e9_d13d, 0x6f4c_dc7b_2731_fbd4, 0xbf33_2905_9bb9_5023],
    ),
    OfFormat(
        Format::Q5_1,
        [0xcef4_4bc4_445e_0a0a, 0x86f6_372c_9bd8_2b87, 0x09ed_55a3_1df5_dfa5, 0x980f_fa34_8077_179b],
    ),
    OfFormat(
        Format::Q8_0,
        [0xbcf3_110c_dcd4_e160, 0xc809_493e_8d3a_e792, 0x652d_09a9_8cc8_6f1e, 0xc841_8e85_5aaa_1ee9],
    ),
    OfFormat(
        Format::Q2_K,
        [0xcaee_1672_aca5_0e0b, 0x9354_85d2_3cd6_e5c4, 0xe428_aaf3_794e_97ca, 0xfadf_d9cd_c512_c633],
    ),
    OfFormat(
        Format::Q3_K,
        [0x6089_08de_3bf0_78c0, 0x9600_e7a0_95d1_e674, 0x06dc_8181_25c7_3523, 0x06d2_a731_4b00_c58e],
    ),
    OfFormat(
        Format::Q4_K,
        [0x77c0_7a63_eb7d_2077, 0xa990_d0ee_d746_c465, 0xbf0e_0060_056f_7898, 0x46ac_8a50_94c4_4bed],
    ),
    OfFormat(
        Format::Q5_K,
        [0x409f_cb85_7477_def1, 0x93c6_122d_f1c8_11cd, 0x0bf4_82c2_b889_e76d, 0xc0e3_da2a_738f_97d1],
    ),
    OfFormat(
        Format::Q6_K,
        [0x0201_7804_22e6_6bf2, 0x2bd6_9d50_9731_3941, 0xd0ca_c155_6e98_c491, 0x2519_412e_9df9_ede0],
    ),
    OfFormat(
        Format::IQ4_NL,
        [0xdd86_07bd_4c45_f6d4, 0x0289_d9e5_f7ef_365a, 0xe22e_3f1c_3e0f_52ec, 0x0258_a580_9ce2_2602],
    ),
    OfFormat(
        Format::IQ4_XS,
        [0xf5e2_a8d7_dc6f_523a, 0x0bf9_a59b_7cc4_d03a, 0x6480_0eb6_57b8_6a9b, 0xe36f_8a4a_e0fd_5dd1],
    ),
    OfFormat(
        Format::MXFP4,
        [0x2630_7abf_879a_bd6b, 0x9a42_4d04_8a35_f3e7, 0xeda3_62a4_34cc_f771, 0x1fff_8889_dfb1_5b81],
    ),
];

/// The checksums of the activation formats.
const ACTS: [(ActFormat, u64); 4] = [
    (ActFormat::F32, 0x2f1f_fc37_9966_e3e2),
    (ActFormat::Bf16, 0xb8a9_d381_8ac9_d81d),
    (ActFormat::Q8x32, 0x5955_2039_503a_b701),
    (ActFormat::Q8x256, 0x9267_943b_081a_8c0d),
];

/// Every bench.
pub fn entries() -> Vec<Entry> {
    let mut all = Vec::new();
    for OfFormat(format, [gemm, gemv, packed, expanded]) in FORMATS {
        all.push(product("gemm", format, N, 1, gemm));
        all.push(product("gemv", format, 1, 1, gemv));
        let copies = COLD.div_ceil(packed_bytes(format, M, K).unwrap_or(COLD));
        all.push(product("gemv, weights from memory", format, 1, copies, gemv));
        let bytes = format.row_bytes(K).unwrap_or_default() * M;
        let plain = |group, expected, make: fn(Format, (usize, usize)) -> Box<dyn Work>| Entry {
            group,
            name: format.label(),
            amount: Amount::Bytes(bytes),
            expected,
            make: Box::new(move |_| make(format, (M, K))),
            kernel: Box::new(move |_| format!("{group} {format}")),
        };
        all.push(plain("pack", packed, |format, shape| Box::new(Pack::new(format, shape))));
        all.push(plain("dequantize", expanded, |format, shape| Box::new(Dequantize::new(format, shape))));
    }
    all.extend(ACTS.map(|(format, expected)| Entry {
        group: "quantize",
        name: format.label(),
        amount: Amount::Bytes(N * K * size_of::<f32>()),
        expected,
        // One token: the order of the records of several depends on the tier's column tile.
        make: Box::new(move |_| Box::new(Quantize::new(format, (1, N * K)))),
        kernel: kernel(KernelOp::Quantize(format)),
    }));
    all.extend(operations());
    all
}

/// The operations between matrices.
fn operations() -> [Entry; 7] {
    let op = |name, op, amount, expected, make: fn(&KernelTable) -> Box<dyn Work>| Entry {
        group: "f32",
        name,
        amount,
        expected,
        make: Box::new(make),
        kernel: kernel(KernelOp::F32(op)),
    };
    let (_, positions, dim) = ATTENTION;
    let cache = |element: usize| Amount::Bytes(2 * positions * dim * element);
    let row = Amount::Elements(K);
    [
        op("attention-f32", F32Op::AttentionF32, cache(4), 0x2f3d_68bd_7af3_c6d7, |table| {
            Box::new(Attention::<f32>::new(table, ATTENTION))
        }),
        op("attention-f16", F32Op::AttentionF16, cache(2), 0x8333_c7d9_12e8_7ed6, |table| {
            Box::new(Attention::<u16>::new(table, ATTENTION))
        }),
        op("rms_norm", F32Op::RmsNorm, row, 0xaaa8_f072_30d6_ce59, |_| Box::new(RmsNorm::new((1, K)))),
        op("gated-silu", F32Op::Gated, row, 0xc292_109a_3c9b_e323, |_| {
            Box::new(Gated::new(Activation::Silu, K))
        }),
        op("gated-gelu_tanh", F32Op::Gated, row, 0x838f_9889_0edd_4e81, |_| {
            Box::new(Gated::new(Activation::GeluTanh, K))
        }),
        op("rope-half", F32Op::Rope, row, 0x4974_8f81_9ba5_110b, |_| {
            Box::new(Rope::new(RopePairs::Half, (K / 64, 64)))
        }),
        op("rope-interleaved", F32Op::Rope, row, 0xd2f1_82ad_52f6_277d, |_| {
            Box::new(Rope::new(RopePairs::Interleaved, (K / 64, 64)))
        }),
    ]
}

fn product(group: &'static str, format: Format, n: usize, copies: usize, expected: u64) -> Entry {
    let amount = match n {
        1 => Amount::Bytes(packed_bytes(format, M, K).unwrap_or_default()),
        _ => Amount::MultiplyAdds(M * n * K),
    };
    Entry {
        group,
        name: format.label(),
        amount,
        expected,
        make: Box::new(move |table| Box::new(Product::new(table, format, (M, n, K), copies))),
        kernel: kernel(if n == 1 { KernelOp::Gemv(format) } else { KernelOp::Gemm(format) }),
    }
}

/// The kernel of a table for an operation.
fn kernel(op: KernelOp) -> Box<dyn Fn(&KernelTable) -> String> {
    Box::new(move |table| {
        table.kernels().find(|id| id.op == op).map_or_else(|| "none".to_owned(), |id| id.to_string())
    })
}
