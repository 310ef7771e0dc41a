//! The common header of ICMP and ICMPv6 messages.

/// Declares the header: `icmp_header! { /// docs Name }`. The module that uses the macro must have
/// `kind::ECHO_REPLY`.
macro_rules! icmp_header {
    ($(#[$meta:meta])* $name:ident) => {
        header! { $(#[$meta])* $name, 8 }

        impl $name {
            /// Turns an echo request into its reply in place, checksum included (RFC 1624); the body does not
            /// change. Exchanging the packet's addresses does not change a checksum.
            #[inline(always)]
            pub fn make_echo_reply(&mut self) {
                let old = crate::field::get16::<0, _>(&self.0);
                self.0[0] = kind::ECHO_REPLY;
                let new = crate::field::get16::<0, _>(&self.0);
                // A reply may be all zeros, for which an incremental update is wrong: the checksum must be 0xffff then, not 0. In all other
                // replies, 0xffff is as valid as 0.
                let updated = crate::checksum::update16(self.checksum(), old, new);
                self.set_checksum(crate::checksum::nonzero(updated));
            }

            /// Message type, see [`kind`].
            #[inline(always)]
            pub const fn kind(&self) -> u8 {
                self.0[0]
            }

            /// Code within the type.
            #[inline(always)]
            pub const fn code(&self) -> u8 {
                self.0[1]
            }

            /// Checksum.
            #[inline(always)]
            pub const fn checksum(&self) -> u16 {
                crate::field::get16::<2, _>(&self.0)
            }

            /// The four bytes that depend on the type.
            #[inline(always)]
            pub const fn rest(&self) -> u32 {
                crate::field::get32::<4, _>(&self.0)
            }

            /// Identifier of an echo.
            #[inline(always)]
            pub const fn echo_id(&self) -> u16 {
                crate::field::get16::<4, _>(&self.0)
            }

            /// Sequence number of an echo.
            #[inline(always)]
            pub const fn echo_seq(&self) -> u16 {
                crate::field::get16::<6, _>(&self.0)
            }

            /// Sets the checksum.
            #[inline(always)]
            pub fn set_checksum(&mut self, checksum: u16) {
                crate::field::put::<2, 2, _>(&mut self.0, checksum.to_be_bytes());
            }

            /// Sets the four bytes that depend on the type. Does not update the checksum.
            #[inline(always)]
            pub fn set_rest(&mut self, rest: u32) {
                crate::field::put::<4, 4, _>(&mut self.0, rest.to_be_bytes());
            }
        }
    };
}
