//! Fixed-point functions, exact in the sense that every platform gets the same bits.

/// One in the format of [`exp_q30`].
pub const ONE_Q30: i64 = 1 << 30;

/// e^x for x in 2^-30, |x| ≤ 8; relative error below 2^-22.
///
/// e^x = (e^(x/8))^8, the inner one by its Taylor series.
pub fn exp_q30(x: i64) -> i64 {
    let x = x.clamp(-8 * ONE_Q30, 8 * ONE_Q30) / 8;
    // Horner: 1 + x(1 + x/2(1 + x/3(…)))
    let inner = (1..=9)
        .rev()
        .fold(ONE_Q30, |sum, n| ONE_Q30 + ((x * sum) >> 30) / n);
    (0..3).fold(inner, |power, _| {
        ((i128::from(power) * i128::from(power)) >> 30) as i64
    })
}

/// ⌊√x⌋ of a non-negative number.
pub fn sqrt(x: i128) -> i128 {
    if x <= 0 {
        return 0;
    }
    let mut root = 1i128 << (128 - x.leading_zeros()).div_ceil(2);
    loop {
        let next = (root + x / root) / 2;
        if next >= root {
            return root;
        }
        root = next;
    }
}

/// Bell-shaped noise from counters: the sum of three uniforms less its mean, in 2^-16, within
/// ±1.5. The same counters give the same noise, so that nothing but the counters is state.
pub fn noise_q16(step: u32, kind: u32) -> i64 {
    // splitmix64 of the pair
    let mut z = ((u64::from(step) << 32) | u64::from(kind)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (0..3).map(|i| (z >> (16 * i) & 0xffff) as i64).sum::<i64>() - 3 * 0x8000
}

#[cfg(test)]
#[expect(
    clippy::disallowed_types,
    reason = "compared with the library's functions"
)]
mod tests {
    use super::*;

    #[test]
    fn exp_and_sqrt_are_close_and_exact_at_the_easy_points() {
        assert_eq!(exp_q30(0), ONE_Q30);
        for tenths in -20i64..=20 {
            let x = tenths as f64 / 10.0;
            let got = exp_q30(tenths * ONE_Q30 / 10) as f64 / ONE_Q30 as f64;
            assert!((got / x.exp() - 1.0).abs() < 1e-6, "{x}: {got}");
        }
        for x in [0i128, 1, 2, 3, 4, 99, 100, 101, 1 << 80, (1 << 80) - 1] {
            let root = sqrt(x);
            assert!(
                root * root <= x && (root + 1) * (root + 1) > x,
                "{x}: {root}"
            );
        }
    }

    #[test]
    fn noise_is_centred() {
        let sum: i64 = (0..10_000).map(|step| noise_q16(step, 7)).sum();
        assert!((sum / 10_000).abs() < 0x800, "{}", sum / 10_000);
        assert_ne!(noise_q16(1, 2), noise_q16(2, 1));
    }
}
