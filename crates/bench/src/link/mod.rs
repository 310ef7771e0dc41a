//! Links between the tester's ports that need no router: for the self-test, and for simulated routers.

mod cable;

pub use cable::cable;
