//! The API in HTTP: its operations, and their description in OpenAPI.

mod answer;
mod requests;
mod tasks;

use std::rc::Rc;

use hyper::body::{Bytes, Incoming};
use hyper::header::EXPECT;
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use model::cli::Role;
use serde_json::{Map, Value, json};

use super::body::Body;
use super::client::Client;
use super::problem::{Problem, bad, limited};
use super::rpc::DEFINITION;
use crate::app::Context;
use crate::config::schema;
use crate::system::Catalog;
use answer::{JSON, LINES, PCAP, Refused, YAML, json as answer_json, whole};
use requests::{Asked, RequestBody, Tags};
use tasks::{JSON_PATCH, MERGE_PATCH};

/// The media type of the gRPC service's definition.
const TEXT: &str = "text/plain";

/// A parameter in the query.
struct Parameter {
    name: &'static str,
    /// Its type, in JSON Schema.
    kind: &'static str,
    help: &'static str,
}

/// The body of a request.
enum Sends {
    Nothing,
    /// The configuration, as one of these media types.
    Document(&'static [&'static str]),
    /// A patch of the configuration.
    Patch,
    /// A JSON object with these members, each with its name, type and help.
    Members(&'static [(&'static str, &'static str, &'static str)]),
}

/// The content of an answer.
enum Returns {
    /// The configuration.
    Document,
    /// What was changed.
    Changed,
    /// Any JSON.
    Json(&'static str),
    /// JSON objects, one per line.
    Lines(&'static str),
    /// Plain text.
    Text(&'static str),
    /// A capture file.
    Pcap,
}

/// What an operation does.
#[derive(Clone, Copy, PartialEq)]
enum Task {
    About,
    Describe,
    Define,
    GetConfig,
    PutConfig,
    PatchConfig,
    Confirm,
    RollBack,
    Show,
    RunCommands,
    Trace,
    Capture,
    Watch,
}

/// An operation of the API: a method on a path.
struct Operation {
    method: &'static str,
    /// The path. If it ends with `{…}`, one or more words of a request's path may take this place.
    path: &'static str,
    /// Its identifier in OpenAPI.
    id: &'static str,
    task: Task,
    help: &'static str,
    parameters: &'static [Parameter],
    sends: Sends,
    returns: Returns,
    /// The lowest role that may call the operation.
    needs: Role,
}

const DRY_RUN: Parameter =
    Parameter { name: "dry-run", kind: "boolean", help: "Only report what would change." };
const CONFIRM: Parameter = Parameter {
    name: "confirm",
    kind: "integer",
    help: "Roll the change back after this number of seconds, unless it is confirmed.",
};

const OPERATIONS: &[Operation] = &[
    Operation {
        method: "GET",
        path: "/v1",
        id: "about",
        task: Task::About,
        help: "The version of the router, and the generation of its configuration.",
        parameters: &[],
        sends: Sends::Nothing,
        returns: Returns::Json("Version and generation."),
        needs: Role::Viewer,
    },
    Operation {
        method: "GET",
        path: "/v1/openapi.json",
        id: "openapi",
        task: Task::Describe,
        help: "This description.",
        parameters: &[],
        sends: Sends::Nothing,
        returns: Returns::Json("An OpenAPI 3.1 document."),
        needs: Role::Viewer,
    },
    Operation {
        method: "GET",
        path: "/v1/volley.proto",
        id: "definition",
        task: Task::Define,
        help: "The definition of the gRPC service, from which clients are generated.",
        parameters: &[],
        sends: Sends::Nothing,
        returns: Returns::Text("Protocol buffers."),
        needs: Role::Viewer,
    },
    Operation {
        method: "GET",
        path: "/v1/config",
        id: "getConfig",
        task: Task::GetConfig,
        help: "The configuration. Its ETag is its generation. A read-only client gets no secrets. If the configuration changes while a long \
               answer is sent, the connection is closed before the end.",
        parameters: &[],
        sends: Sends::Nothing,
        returns: Returns::Document,
        needs: Role::Viewer,
    },
    Operation {
        method: "PUT",
        path: "/v1/config",
        id: "putConfig",
        task: Task::PutConfig,
        help: "Replace the configuration by a document, all or nothing. With If-Match, only if the configuration still has this ETag.",
        parameters: &[DRY_RUN, CONFIRM],
        sends: Sends::Document(&[JSON, YAML]),
        returns: Returns::Changed,
        needs: Role::Admin,
    },
    Operation {
        method: "PATCH",
        path: "/v1/config",
        id: "patchConfig",
        task: Task::PatchConfig,
        help: "Change parts of the configuration, all or nothing. By a merge patch (RFC 7396; the default): members replace those of the same \
               name, and null removes them; lists, such as routes, are replaced as a whole. Or by operations (`application/json-patch+json`, \
               RFC 6902): `add`, `remove`, `replace`, `move`, `copy` and `test`; a failed `test` is answered with 409.",
        parameters: &[DRY_RUN, CONFIRM],
        sends: Sends::Patch,
        returns: Returns::Changed,
        needs: Role::Admin,
    },
    Operation {
        method: "POST",
        path: "/v1/config/confirm",
        id: "confirm",
        task: Task::Confirm,
        help: "Keep the configuration that was applied with `confirm`. With If-Match, only if it is the one whose change was answered with this \
               ETag.",
        parameters: &[],
        sends: Sends::Nothing,
        returns: Returns::Changed,
        needs: Role::Admin,
    },
    Operation {
        method: "POST",
        path: "/v1/config/rollback",
        id: "rollback",
        task: Task::RollBack,
        help: "Roll back the last change of the configuration, or the last `changes` ones. With If-Match, only if the configuration still has \
               this ETag.",
        parameters: &[DRY_RUN],
        sends: Sends::Members(&[("changes", "integer", "Number of changes.")]),
        returns: Returns::Changed,
        needs: Role::Admin,
    },
    Operation {
        method: "GET",
        path: "/v1/show/{command}",
        id: "show",
        task: Task::Show,
        help: "The output of a `show` command as JSON; the words of the command are parts of the path, as in `/v1/show/interface/host-eth0`.",
        parameters: &[],
        sends: Sends::Nothing,
        returns: Returns::Json("The output of the command."),
        needs: Role::Viewer,
    },
    Operation {
        method: "POST",
        path: "/v1/commands",
        id: "runCommands",
        task: Task::RunCommands,
        help: "Run commands one after the other, until one fails. Each is a change of its own. A read-only client may run the commands that \
               change nothing.",
        parameters: &[],
        sends: Sends::Members(&[("commands", "array of strings", "The commands.")]),
        returns: Returns::Json(
            "`results` with `command` and, if any, `output` and `error` of each command that ran; `complete` is true if all commands succeeded.",
        ),
        needs: Role::Viewer,
    },
    Operation {
        method: "POST",
        path: "/v1/trace",
        id: "trace",
        task: Task::Trace,
        help: "Trace the next packets that an input node receives. When they have passed, or when the time is over, the answer has them, as \
               `show trace` does.",
        parameters: &[],
        sends: Sends::Members(&[
            ("node", "string", "The input node, such as `af-packet-input`."),
            ("packets", "integer", "Number of packets, 1 to 1000."),
            ("filter", "string", "An expression of tcpdump; by default, all packets."),
            ("wait_ms", "integer", "Maximum time to wait, in milliseconds, at most 60000; 10000 by default."),
        ]),
        returns: Returns::Json("The traced packets, node by node."),
        needs: Role::Operator,
    },
    Operation {
        method: "GET",
        path: "/v1/capture",
        id: "capture",
        task: Task::Capture,
        help: "Copies of packets as a capture file (pcap), until the client has enough or leaves: by default, of received and sent packets. One \
               capture runs at a time. If the client reads slowly, packets are left out.",
        parameters: &[
            Parameter { name: "rx", kind: "boolean", help: "Received packets." },
            Parameter { name: "tx", kind: "boolean", help: "Sent packets." },
            Parameter { name: "drop", kind: "boolean", help: "Dropped packets." },
            Parameter {
                name: "interface",
                kind: "string",
                help: "A device, with its sub-interfaces; by default, all.",
            },
            Parameter {
                name: "packets",
                kind: "integer",
                help: "The capture ends after this number of packets.",
            },
            Parameter { name: "bytes", kind: "integer", help: "Maximum number of bytes of each packet." },
            Parameter { name: "filter", kind: "string", help: "An expression of tcpdump." },
        ],
        sends: Sends::Nothing,
        returns: Returns::Pcap,
        needs: Role::Viewer,
    },
    Operation {
        method: "GET",
        path: "/v1/watch",
        id: "watch",
        task: Task::Watch,
        help: "The generation of the configuration and the state of each interface, then `complete`, then each change of the generation \
               and of the interfaces.",
        parameters: &[],
        sends: Sends::Nothing,
        returns: Returns::Lines(
            "Events: `generation`, `interface`, `removed` or `complete`; an empty line after 15 s without events.",
        ),
        needs: Role::Viewer,
    },
];

impl Operation {
    /// True if the operation checks `If-Match`.
    fn is_conditional(&self) -> bool {
        matches!(self.task, Task::PutConfig | Task::PatchConfig | Task::Confirm | Task::RollBack)
    }

    /// Returns the part of `path` that matches `{…}` in the operation's path; an empty part if the operation's path has no `{…}`. Returns
    /// `None` if the paths do not match.
    fn rest<'p>(&self, path: &'p str) -> Option<&'p str> {
        match self.path.split_once("/{") {
            Some((begin, _)) => path.strip_prefix(begin)?.strip_prefix('/').filter(|rest| !rest.is_empty()),
            None => (path == self.path).then_some(""),
        }
    }
}

/// Answers a request.
pub(super) async fn answer(client: &Rc<Client>, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let waits = head.headers.contains_key(EXPECT);
    let body = RequestBody::new(body);
    match run(client, head, body.clone()).await {
        Ok(answer) => answer,
        Err(refused) => {
            // A client that waits for permission to send its body gets the refusal instead.
            if !waits {
                body.skip().await;
            }
            refused.answer(client)
        }
    }
}

async fn run(client: &Rc<Client>, head: Parts, body: RequestBody) -> Result<Response<Body>, Refused> {
    let path = head.uri.path().trim_end_matches('/').to_owned();
    let of_path: Vec<&Operation> = OPERATIONS.iter().filter(|o| o.rest(&path).is_some()).collect();
    // The answer to HEAD is that to GET, and the HTTP library leaves the body out.
    let method = if head.method == Method::HEAD { "GET" } else { head.method.as_str() };
    let Some(operation) = of_path.iter().find(|o| o.method == method) else {
        if of_path.is_empty() {
            let why = "there is no such resource: GET /v1/openapi.json lists all";
            return Err(Problem::new(StatusCode::NOT_FOUND, why).into());
        }
        let mut methods: Vec<&str> = of_path.iter().map(|o| o.method).collect();
        if methods.contains(&"GET") {
            methods.push("HEAD");
        }
        return Err(Refused::Method(methods));
    };
    let role = client.identity.role;
    if role < operation.needs {
        return Err(limited(role).into());
    }
    let names: Vec<&str> = operation.parameters.iter().map(|parameter| parameter.name).collect();
    let asked = Asked::new(head, body, operation.rest(&path).unwrap_or_default(), &names)?;
    client.shows(&asked.line);
    if operation.needs > Role::Viewer && !operation.is_conditional() && asked.expected()? != Tags::Unsaid {
        return Err(bad("If-Match is not supported here, only for changes of the configuration").into());
    }
    match operation.task {
        Task::Describe => {
            let make = |c: &mut Context| {
                let description = openapi(&c.system.abilities.catalog);
                Bytes::from(format!("{description:#}\n"))
            };
            if client.description.get().is_none() {
                let text = client.slice(make).await;
                // Another request may have set the text meanwhile.
                let _ = client.description.set(text);
            }
            let text = client.description.get().cloned().unwrap_or_default();
            Ok(whole(client, StatusCode::OK, JSON, text))
        }
        Task::Define => Ok(whole(client, StatusCode::OK, TEXT, DEFINITION)),
        Task::GetConfig => tasks::get(client, &asked).await,
        Task::PutConfig => tasks::put(client, asked).await,
        Task::PatchConfig => tasks::patch(client, asked).await,
        Task::Confirm => tasks::confirm(client, &asked).await,
        Task::RollBack => tasks::roll_back(client, asked).await,
        Task::Show => tasks::show(client, &asked).await,
        Task::RunCommands => tasks::commands(client, asked).await,
        Task::Trace => tasks::trace(client, asked).await,
        Task::Capture => tasks::capture(client, &asked).await,
        Task::Watch => Ok(tasks::watch(client)),
        Task::About => {
            let generation = client.look(|c| c.journal.generation());
            let about = json!({ "version": env!("CARGO_PKG_VERSION"), "generation": generation });
            Ok(answer_json(client, &about))
        }
    }
}

/// Returns the description of all operations, in OpenAPI 3.1. The fields of the configuration follow from the schemas in the catalog.
fn openapi(catalog: &Catalog) -> Value {
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let of_path = paths.entry(operation.path).or_insert_with(|| json!({}));
        of_path[operation.method.to_lowercase()] = describe(operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Volley", "version": env!("CARGO_PKG_VERSION"), "description": "The native API of the router." },
        "paths": paths,
        "components": { "schemas": {
            "Config": schema(catalog),
            "Changed": changed(),
            "Problem": problem(),
        } },
    })
}

/// Returns a reference to the schema of the configuration.
fn config() -> Value {
    json!({ "$ref": "#/components/schemas/Config" })
}

/// Returns the description of a body that has one of these media types.
fn content(kinds: &[&str], schema: Value) -> Value {
    kinds.iter().map(|kind| ((*kind).to_owned(), json!({ "schema": schema }))).collect::<Map<_, _>>().into()
}

/// Returns the description of an operation's answer.
fn answers(operation: &Operation) -> Value {
    match operation.returns {
        Returns::Document => {
            json!({ "description": "The configuration.", "content": content(&[JSON, YAML], config()) })
        }
        Returns::Changed => {
            let changed = json!({ "$ref": "#/components/schemas/Changed" });
            json!({ "description": "What was changed.", "content": content(&[JSON], changed) })
        }
        Returns::Json(what) => json!({ "description": what, "content": content(&[JSON], json!({})) }),
        Returns::Text(what) => {
            json!({ "description": what, "content": content(&[TEXT], json!({ "type": "string" })) })
        }
        Returns::Lines(what) => json!({ "description": what, "content": content(&[LINES], json!({})) }),
        Returns::Pcap => {
            let file = json!({ "type": "string", "contentEncoding": "binary" });
            json!({ "description": "Packets.", "content": content(&[PCAP], file) })
        }
    }
}

fn describe(operation: &Operation) -> Value {
    let mut parameters: Vec<Value> = operation
        .parameters
        .iter()
        .map(
            |p| json!({ "name": p.name, "in": "query", "description": p.help, "schema": { "type": p.kind } }),
        )
        .collect();
    if operation.path.ends_with('}') {
        parameters.push(
            json!({ "name": "command", "in": "path", "required": true, "schema": { "type": "string" } }),
        );
    }
    let header = |name: &str, help: &str| json!({ "name": name, "in": "header", "description": help, "schema": { "type": "string" } });
    if operation.is_conditional() {
        let help = match operation.task {
            Task::Confirm => "Confirm only the change that was answered with this ETag (otherwise 412).",
            _ => "Change the configuration only if it still has this ETag (otherwise 412).",
        };
        parameters.push(header("If-Match", help));
    }
    if operation.task == Task::GetConfig {
        parameters.push(header("If-None-Match", "Answer 304 if the configuration still has this ETag."));
    }
    let answer = answers(operation);
    let problem = json!({
        "description": "The request is refused. A refused change has changed nothing.",
        "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
    });
    let mut all = json!({
        "operationId": operation.id,
        "description": operation.help,
        "parameters": parameters,
        "responses": { "200": answer, "default": problem },
    });
    match operation.sends {
        Sends::Nothing => {}
        Sends::Document(kinds) => {
            all["requestBody"] = json!({ "required": true, "content": content(kinds, config()) });
        }
        Sends::Patch => all["requestBody"] = json!({ "required": true, "content": patches() }),
        Sends::Members(members) => {
            let of = |kind: &str| match kind.strip_prefix("array of ") {
                Some(_) => json!({ "type": "array", "items": { "type": "string" } }),
                None => json!({ "type": kind }),
            };
            let members: Map<String, Value> = members
                .iter()
                .map(|(name, kind, help)| {
                    let mut schema = of(kind);
                    schema["description"] = (*help).into();
                    ((*name).to_owned(), schema)
                })
                .collect();
            let body = json!({ "type": "object", "properties": members });
            all["requestBody"] = json!({ "content": content(&[JSON], body) });
        }
    }
    all
}

/// Returns the description of a body with a patch.
fn patches() -> Value {
    let merge = json!({ "type": "object", "description": "Members of the configuration; null removes one." });
    let place = json!({ "type": "string", "description": "A JSON Pointer (RFC 6901); `-` at its end: after the last item of a list." });
    let operation = json!({
        "type": "object",
        "required": ["op", "path"],
        "properties": {
            "op": { "enum": ["add", "remove", "replace", "move", "copy", "test"] },
            "path": place,
            "from": place,
            "value": {},
        },
    });
    let mut all = content(&[MERGE_PATCH, JSON], merge);
    all[JSON_PATCH] = json!({ "schema": { "type": "array", "items": operation } });
    all
}

fn changed() -> Value {
    let texts = json!({ "type": "array", "items": { "type": "string" } });
    json!({ "type": "object", "properties": {
        "generation": { "type": "integer", "description": "The generation of the configuration." },
        "changed": { "type": "boolean", "description": "False if nothing was changed." },
        "difference": { "type": "array", "items": { "type": "string" }, "description": "The removed (-) and added (+) commands." },
        "is_cut": { "type": "boolean", "description": "True if the difference is longer than what is listed." },
        "warnings": texts,
        "notes": texts,
        "rolls_back_in": { "type": "integer", "description": "Seconds until the change is rolled back unless it is confirmed." },
    } })
}

fn problem() -> Value {
    json!({ "type": "object", "description": "An error (RFC 9457).", "properties": {
        "title": { "type": "string" },
        "status": { "type": "integer" },
        "detail": { "type": "string" },
        "faults": { "type": "array", "description": "The faults of the document.", "items": { "type": "object", "properties": {
            "detail": { "type": "string" },
            "pointer": { "type": "string", "description": "The place in the document, as a JSON Pointer (RFC 6901)." },
            "line": { "type": "integer" },
            "column": { "type": "integer" },
        } } },
    } })
}

/// Returns the operations as a list in Markdown, for the documentation.
pub fn markdown() -> String {
    let row = |o: &Operation| {
        let parameters: Vec<String> = o.parameters.iter().map(|p| format!("`{}`", p.name)).collect();
        format!("| `{} {}` | {} | {} |\n", o.method, o.path, parameters.join(", "), o.help)
    };
    OPERATIONS
        .iter()
        .fold("| request | parameters | meaning |\n|---|---|---|\n".into(), |text, o| text + &row(o))
}
