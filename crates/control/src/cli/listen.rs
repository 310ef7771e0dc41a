//! t
/// x
pub struct Listener;
