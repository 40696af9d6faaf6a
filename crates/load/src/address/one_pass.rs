//! What is known of flash that was written at random for long.

/// Returns the share of a block's pages that are still valid when it is collected, in the steady
/// state of uniform random writes: the root u below 1 of u = exp(-(1 + s)(1 - u)), with s the
/// over-provisioning as a share of the capacity.
///
/// Within the time in which all of the flash, 1 + s capacities, is written anew, the host writes
/// (1 + s)(1 - u) capacities; a page stays valid with a probability of e to the minus that.
/// The same in closed form is -W(-a e^-a) / a with a = 1 + s and Lambert's W (Desnoyers, "Analytic
/// modeling of SSD write performance", SYSTOR 2012; Xiang and Kurkoski, arXiv:1110.4245).
#[must_use]
pub fn victim_valid_share(over_provisioning_share: f64) -> f64 {
    let physical = 1.0 + over_provisioning_share;
    // The other root is 1; between this one and 1 / physical the difference has one sign.
    let (mut low, mut high) = (0.0, 1.0 / physical);
    for _ in 0..64 {
        let middle = 0.5 * (low + high);
        if middle < (-physical * (1.0 - middle)).exp() { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}
