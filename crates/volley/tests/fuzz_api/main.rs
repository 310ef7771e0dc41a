//! The APIs of a running router under arbitrary input. The router must not panic, its memory must not grow, its answers must be
//! well-formed, and it must still answer another client. The input is made from the definitions of all messages and operations. Without
//! `$VOLLEY_FUZZ_SECONDS`, each API gets the same input for 20 seconds. With it, each API gets different input for that time (`make fuzz`).
//! A failure shows the seed of its input, for `$VOLLEY_FUZZ_FROM`.

mod binary;
mod course;
mod dice;
mod message;
mod native;
mod peer;

/// The first configuration of the router.
const START: &str = "create loopback interface\n\
    set interface ip address loop0 10.0.0.1/24\n\
    create packet-generator interface pg0\n\
    set interface state pg0 up\n\
    set interface ip address pg0 10.1.0.1/24\n\
    set interface ip address pg0 2001:db8::1/64\n\
    create host-interface name eth0\n\
    ip route add 192.0.2.0/24 via 10.1.0.2\n";
