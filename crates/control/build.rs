//! Generates the messages and the list of calls of the gRPC service from its definition. Needs no compiler of protocol buffers.

use std::fmt::Write;
use std::path::Path;

/// The definition, relative to the package.
const DEFINITION: &str = "proto/volley/v1/volley.proto";
/// The folder to which file names in the definition are relative.
const FOLDER: &str = "proto";

fn main() {
    println!("cargo::rerun-if-changed={FOLDER}");
    // Errors in a build script have no other place to go.
    let root = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets the folder of the package");
    let path = |name: &str| Path::new(&root).join(name);
    let files = protox::compile([path(DEFINITION)], [path(FOLDER)]).unwrap_or_else(|e| panic!("{e:?}"));
    prost_build::Config::new()
        .bytes(["."])
        .service_generator(Box::new(Calls))
        .compile_fds(files)
        .expect("the definition is valid");
}

/// Writes an enum of the calls of a service.
struct Calls;

impl prost_build::ServiceGenerator for Calls {
    fn generate(&mut self, service: prost_build::Service, to: &mut String) {
        let mut variants = String::new();
        let mut all = String::new();
        for method in &service.methods {
            let help = method.comments.leading.join(" ");
            let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
            let name = &method.proto_name;
            let (sends, returns) = (method.client_streaming, method.server_streaming);
            let path = format!("/{}.{}/{}", service.package, service.proto_name, method.proto_name);
            // Writing to a string cannot fail.
            let _ = writeln!(variants, "    /// {help}\n    {name},");
            let _ = writeln!(
                all,
                "        About {{ call: Call::{name}, path: {path:?}, name: {name:?}, help: {help:?}, sends_stream: {sends}, returns_stream: {returns} }},",
            );
        }
        let _ = write!(
            to,
            "/// A call of the service.\n#[derive(Clone, Copy, Debug, PartialEq, Eq)]\npub enum Call {{\n{variants}}}\n\n\
             impl Call {{\n    /// All calls.\n    pub const ALL: &'static [About] = &[\n{all}    ];\n}}\n\n\
             /// The description of a call.\npub struct About {{\n\
             /// The call.\npub call: Call,\n/// Its path in HTTP.\npub path: &'static str,\n/// Its name.\npub name: &'static str,\n\
             /// What it does.\npub help: &'static str,\n/// True if the request is a stream of messages.\npub sends_stream: bool,\n\
             /// True if the answer is a stream of messages.\npub returns_stream: bool,\n}}\n"
        );
    }
}
