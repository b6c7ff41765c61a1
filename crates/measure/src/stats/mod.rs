//! Statistics over samples. All functions are pure and accept malformed input (rule 23).

pub mod floors;
pub mod half_power;
pub mod interval;
pub mod knee;
pub mod launches;
pub mod moderate;
pub mod outlier;
pub mod quantile;
pub mod special;
pub mod step;
pub mod welch;
