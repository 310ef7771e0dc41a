//! Building the graph: names become numbers, or the start stops with a clear error.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{self, Write};
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

use buf::{FeatureField, FeatureFields, Field, Frame};
use infra::class_a::{Reader, published};
use infra::quiesce::Domain;
use kernels::Codes;

use crate::arc::{ArcControl, ArcKey, ArcPlan, CONTINUE, Place, Row, Rows};
use crate::builtin::{self, PuntInfo, PuntReason};
use crate::edge::{EdgeId, Edges, FIRST_REASON, ReasonInfo, Reasons, UNSAID};
use crate::handoff::Exchange;
use crate::node::{Cx, FrameNode, InputNode, More, Out, Outcome, PacketNode, Setup, WaitSet};
use crate::rank;
use crate::rest::Eager;
use crate::stats::Stats;
use crate::trace::{FieldTrace, TraceFn, Tracer};
use crate::worker::Sink;

/// A node's number in the graph: its place in the order in which nodes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// What stops the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphError(pub String);

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the graph cannot be built: {}", self.0)
    }
}
impl std::error::Error for GraphError {}

/// A name that is still without its bearer; see [`Builder::missing`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// An edge or an arc leads to this node.
    Node(String),
    /// This node is a feature of an arc.
    Feature(&'static str),
    /// A feature is to come before or after this one.
    Order {
        /// The arc.
        arc: &'static str,
        /// The feature that the arc lacks.
        feature: &'static str,
    },
}

/// A node behind its type.
pub(crate) trait Erased: Send {
    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, codes: &mut Codes, sink: Sink<'_>) -> Outcome;
    fn hold(&mut self, _cx: &mut Cx<'_>, _frame: &mut Frame, _codes: &mut Codes, _sink: Sink<'_>) {}
    fn held(&mut self, _cx: &mut Cx<'_>, _packet: buf::Held, _codes: &mut Codes, _sink: Sink<'_>) {}
    fn poll(
        &mut self,
        _cx: &mut Cx<'_>,
        _frame: &mut Frame,
        _codes: &mut Codes,
        _sink: Sink<'_>,
    ) -> (Outcome, More) {
        (Outcome::All(UNSAID), More::No)
    }
    fn wait<'a>(&'a self, _wait: &mut WaitSet<'a>) {}
    fn eager(&self) -> Eager {
        Eager::NONE
    }
}

struct OfPacket<T>(T);
struct OfFrame<T>(T);
struct OfInput<T>(T);

fn out<'o, N, D>(codes: &'o mut Codes, sink: Sink<'o>) -> Out<'o, N, D> {
    Out { codes, outcome: Outcome::All(UNSAID), sink, types: PhantomData }
}

impl<T: PacketNode> Erased for OfPacket<T> {
    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, codes: &mut Codes, sink: Sink<'_>) -> Outcome {
        let mut out: Out<'_, T::Next, T::Drop> = out(codes, sink);
        out.each(frame, |_, p| self.0.one(cx, p));
        out.outcome
    }
}

impl<T: FrameNode> Erased for OfFrame<T> {
    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, codes: &mut Codes, sink: Sink<'_>) -> Outcome {
        let mut out = out(codes, sink);
        self.0.run(cx, frame, &mut out);
        out.outcome
    }
    fn hold(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, codes: &mut Codes, sink: Sink<'_>) {
        self.0.hold(cx, frame, &mut out(codes, sink));
    }
    fn held(&mut self, cx: &mut Cx<'_>, packet: buf::Held, codes: &mut Codes, sink: Sink<'_>) {
        self.0.held(cx, packet, &mut out(codes, sink));
    }
}

impl<T: InputNode> Erased for OfInput<T> {
    fn run(&mut self, _: &mut Cx<'_>, _: &mut Frame, _: &mut Codes, _: Sink<'_>) -> Outcome {
        Outcome::All(UNSAID)
    }
    fn poll(
        &mut self,
        cx: &mut Cx<'_>,
        frame: &mut Frame,
        codes: &mut Codes,
        sink: Sink<'_>,
    ) -> (Outcome, More) {
        let mut out = out(codes, sink);
        let more = self.0.poll(cx, frame, &mut out);
        (out.outcome, more)
    }
    fn wait<'a>(&'a self, wait: &mut WaitSet<'a>) {
        self.0.wait(wait);
    }
    fn eager(&self) -> Eager {
        self.0.eager()
    }
}

pub(crate) type Make = Box<dyn Fn(&mut Setup) -> io::Result<Box<dyn Erased>> + Send + Sync>;

struct Def {
    name: &'static str,
    input: bool,
    edges: Vec<String>,
    reasons: &'static [ReasonInfo],
    trace: TraceFn,
    make: Make,
}

struct ArcDef {
    name: &'static str,
    end: &'static str,
    key: ArcKey,
}

struct FeatureDef {
    arc: &'static str,
    node: &'static str,
    after: Vec<&'static str>,
    before: Vec<&'static str>,
}

/// Where an edge leads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) node: u32,
    /// The row of the arc that is entered here, or `NO_ROW`.
    pub(crate) row: u16,
}

pub(crate) const NO_ROW: u16 = u16::MAX;

/// What is known of a built node, for those who show it.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    /// Its name.
    pub name: &'static str,
    /// Whether it brings packets in.
    pub input: bool,
    /// Names of its edges: nodes, arcs, features.
    pub edges: Vec<String>,
    /// Its drop reasons.
    pub reasons: &'static [ReasonInfo],
    /// The number of its first reason among all.
    pub first_reason: u32,
    pub(crate) trace: TraceFn,
    pub(crate) targets: Vec<Target>,
    /// Edges that enter an arc.
    pub(crate) arc_edges: Vec<u8>,
}

impl NodeInfo {
    /// Whether an edge leads to the node at `index` (of [`Blueprint::nodes`]).
    pub fn leads_to(&self, index: usize) -> bool {
        self.targets.iter().any(|t| t.node as usize == index)
    }
}

/// Collects what the graph is made of.
#[derive(Default)]
pub struct Builder {
    defs: Vec<Def>,
    arcs: Vec<ArcDef>,
    features: Vec<FeatureDef>,
    punt_reasons: Vec<PuntInfo>,
    main_reasons: &'static [ReasonInfo],
    fields: FeatureFields,
    field_traces: Vec<FieldTrace>,
}

impl Builder {
    /// A graph with the nodes that every graph has: `drop`, `punt` and `inject`.
    pub fn new() -> Builder {
        let mut b = Builder::default();
        builtin::install(&mut b);
        b
    }

    /// Adds a node that works packet by packet; `make` is called once a worker.
    pub fn packet<T: PacketNode>(
        &mut self,
        make: impl Fn(&mut Setup) -> io::Result<T> + Send + Sync + 'static,
    ) {
        self.add::<T::Drop>(
            T::NAME,
            T::Next::NAMES,
            false,
            T::TRACE,
            Box::new(move |s| Ok(Box::new(OfPacket(make(s)?)))),
        );
    }

    /// Adds a node that works on frames.
    pub fn frame<T: FrameNode>(
        &mut self,
        make: impl Fn(&mut Setup) -> io::Result<T> + Send + Sync + 'static,
    ) {
        self.frame_as(T::NAME, make);
    }

    /// Adds a node that works on frames under another name than its own: one of several of a type.
    pub fn frame_as<T: FrameNode>(
        &mut self,
        name: &'static str,
        make: impl Fn(&mut Setup) -> io::Result<T> + Send + Sync + 'static,
    ) {
        self.add::<T::Drop>(
            name,
            T::EDGES,
            false,
            T::TRACE,
            Box::new(move |s| Ok(Box::new(OfFrame(make(s)?)))),
        );
    }

    /// Adds a node that brings packets in. Its name is given here, since one type may serve several drivers.
    pub fn input<T: InputNode>(
        &mut self,
        name: &'static str,
        make: impl Fn(&mut Setup) -> io::Result<T> + Send + Sync + 'static,
    ) {
        self.add::<T::Drop>(
            name,
            T::Next::NAMES,
            true,
            T::TRACE,
            Box::new(move |s| Ok(Box::new(OfInput(make(s)?)))),
        );
    }

    fn add<D: Reasons>(
        &mut self,
        name: &'static str,
        edges: &[&'static str],
        input: bool,
        trace: TraceFn,
        make: Make,
    ) {
        let edges = edges.iter().map(|n| n.to_string()).collect();
        self.defs.push(Def { name, input, edges, reasons: D::INFO, trace, make });
    }

    /// Declares an arc: packets that enter it come to the node `end` unless a feature takes them.
    ///
    /// An edge that bears the arc's name enters it, also when the arc's end has that name. An arc that bears the name of
    /// the node where it begins is entered there only: from elsewhere the name means that node.
    pub fn arc(&mut self, name: &'static str, end: &'static str, key: ArcKey) {
        self.arcs.push(ArcDef { name, end, key });
    }

    /// Lets an arc end at another node than it was declared with (what captures drops in place of `drop`, say).
    ///
    /// # Errors
    /// When there is no such arc.
    pub fn end_arc_at(&mut self, arc: &str, end: &'static str) -> Result<(), GraphError> {
        let def = self.arcs.iter_mut().find(|a| a.name == arc);
        def.ok_or_else(|| GraphError(format!("there is no arc \"{arc}\" to end at \"{end}\"")))?.end = end;
        Ok(())
    }

    /// Puts a node on an arc, behind and before others. Its way on is the edge [`CONTINUE`].
    pub fn feature(
        &mut self,
        arc: &'static str,
        node: &'static str,
        after: &[&'static str],
        before: &[&'static str],
    ) {
        self.features.push(FeatureDef { arc, node, after: after.to_vec(), before: before.to_vec() });
    }

    /// Gives a feature of several nodes a field in each packet, by which they tell each other what they know of it: see
    /// [`buf::feature`]. The handle goes into the nodes when they are made. `trace` writes a field for a trace: every node that a
    /// packet comes to shows what features know of it.
    ///
    /// # Errors
    /// When the feature has a field already, or there is no room; the text says which features have it.
    pub fn feature_field<T: Field>(
        &mut self,
        feature: &'static str,
        trace: fn(&T, &mut String),
    ) -> Result<FeatureField<T>, GraphError> {
        let field = self.fields.add(feature).map_err(GraphError)?;
        self.field_traces.push(Box::new(move |bytes, text| {
            if let Some(value) = field.among(bytes) {
                let _ = write!(text, "{feature}: ");
                trace(&value, text);
                text.push('\n');
            }
        }));
        Ok(field)
    }

    /// The field of another feature, which was installed before, for nodes that read what it tells.
    ///
    /// # Errors
    /// When that feature has no field, or one of another type.
    pub fn field_of<T: Field>(&self, feature: &str) -> Result<FeatureField<T>, GraphError> {
        self.fields.find(feature).map_err(GraphError)
    }

    /// Declares why packets go to the main thread, and how many a second one worker passes on.
    pub fn punt_reason(&mut self, name: &'static str, rate: u32) -> PuntReason {
        self.punt_reasons.push(PuntInfo::new(name, rate));
        PuntReason(self.punt_reasons.len() as u32 - 1)
    }

    /// Declares why the main thread has no use for packets that it is given: a closed list, as a node has one. The list that
    /// was declared last counts.
    pub fn main_thread<D: Reasons>(&mut self) {
        self.main_reasons = D::INFO;
    }

    /// Adds an edge to a node that was added before.
    ///
    /// # Errors
    /// When there is no such node, or it has no room for another edge.
    pub fn edge(&mut self, from: &str, to: &str) -> Result<EdgeId, GraphError> {
        let def = self.defs.iter_mut().find(|d| d.name == from);
        let def = def.ok_or_else(|| {
            GraphError(format!("an edge to \"{to}\" starts at \"{from}\", which is no node"))
        })?;
        Ok(EdgeId(push_edge(def.name, &mut def.edges, to)?))
    }

    /// What is still to be added before the graph can be built.
    pub fn missing(&self) -> BTreeSet<Missing> {
        let is_node = |name: &str| self.defs.iter().any(|d| d.name == name);
        let is_arc = |name: &str| self.arcs.iter().any(|a| a.name == name);
        let edges = self.defs.iter().flat_map(|d| d.edges.iter().map(String::as_str));
        let edges = edges.filter(|e| *e != CONTINUE && !is_arc(e));
        let ends = self.arcs.iter().map(|a| a.end);
        let nodes = edges.chain(ends).filter(|n| !is_node(n)).map(|n| Missing::Node(n.to_string()));
        let on_arc = |arc: &str, node: &str| self.features.iter().any(|f| f.arc == arc && f.node == node);
        let features = self.features.iter().filter(|f| !is_node(f.node)).map(|f| Missing::Feature(f.node));
        let orders = self.features.iter().flat_map(|f| {
            let others = f.after.iter().chain(&f.before).filter(|n| !on_arc(f.arc, n));
            others.map(|n| Missing::Order { arc: f.arc, feature: n })
        });
        nodes.chain(features).chain(orders).collect()
    }

    /// Resolves all names.
    ///
    /// # Errors
    /// A name that nobody bears, or that two bear; an order of an arc that cannot be kept; an edge to an input node.
    pub fn build(self, domain: &Domain) -> Result<(Blueprint, ArcControl), GraphError> {
        let Builder { mut defs, arcs, features, punt_reasons, main_reasons, fields: _, field_traces } = self;
        let mut by_name: HashMap<&str, usize> = HashMap::new();
        for (i, d) in defs.iter().enumerate() {
            if by_name.insert(d.name, i).is_some() {
                return Err(GraphError(format!("there are two nodes \"{}\"", d.name)));
            }
            if d.reasons.len() > usize::from(u8::MAX - FIRST_REASON - 2) {
                return Err(GraphError(format!("node \"{}\" has too many drop reasons", d.name)));
            }
            if d.edges.len() > usize::from(FIRST_REASON) {
                return Err(GraphError(format!("node \"{}\" has more than {FIRST_REASON} edges", d.name)));
            }
        }
        let inputs: Vec<bool> = defs.iter().map(|d| d.input).collect();
        let node = |name: &str, who: &str| match by_name.get(name) {
            Some(&n) if inputs[n] => Err(GraphError(format!(
                "{who} leads to \"{name}\", which is an input node: nothing can be sent there"
            ))),
            Some(&n) => Ok(n),
            None => Err(GraphError(format!("{who} leads to \"{name}\", which is no node"))),
        };

        let mut rows = Rows::default();
        let mut plans = Vec::new();
        // Edges that enter an arc: the row by (node, edge). The edge's own target is the end of the arc.
        let mut entries: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        let mut ends: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for f in &features {
            if !arcs.iter().any(|a| a.name == f.arc) {
                return Err(GraphError(format!(
                    "feature \"{}\" is for the arc \"{}\", which is none",
                    f.node, f.arc
                )));
            }
            let ordered = f.after.iter().map(|n| (n, "after")).chain(f.before.iter().map(|n| (n, "before")));
            for (other, side) in ordered {
                if !features.iter().any(|g| g.arc == f.arc && g.node == *other) {
                    return Err(GraphError(format!(
                        "feature \"{}\" is to come {side} \"{other}\", which is not on arc \"{}\"",
                        f.node, f.arc
                    )));
                }
            }
        }
        for (i, arc) in arcs.iter().enumerate() {
            if arcs[..i].iter().any(|a| a.name == arc.name) {
                return Err(GraphError(format!("there are two arcs \"{}\"", arc.name)));
            }
            let end = node(arc.end, &format!("arc \"{}\"", arc.name))?;
            let order = sort_features(arc.name, features.iter().filter(|f| f.arc == arc.name).collect())?;
            if order.len() > 64 {
                return Err(GraphError(format!("arc \"{}\" has more than 64 features", arc.name)));
            }
            let mut starts: Vec<(usize, usize, usize)> = Vec::new();
            // An arc that begins at the node of its own name: for all others the name means that node.
            let begins =
                by_name.get(arc.name).copied().filter(|&n| defs[n].edges.iter().any(|e| e == arc.name));
            for (n, d) in defs.iter().enumerate() {
                if begins.is_some_and(|b| b != n) {
                    continue;
                }
                let into = d.edges.iter().enumerate().filter(|(_, e)| *e == arc.name);
                starts.extend(into.map(|(e, _)| (n, e, 0)));
            }
            for (position, name) in order.iter().enumerate() {
                let n = node(name, &format!("arc \"{}\"", arc.name))?;
                let e = defs[n].edges.iter().position(|e| e == CONTINUE).ok_or_else(|| {
                    GraphError(format!("\"{name}\" is a feature, but has no edge \"{CONTINUE}\""))
                })?;
                starts.push((n, e, position + 1));
            }
            let mut places = Vec::new();
            for (n, e, first) in starts {
                let mut edges = Vec::new();
                for f in &order[first..] {
                    edges.push(push_edge(defs[n].name, &mut defs[n].edges, f)?);
                }
                if entries.insert((n, e), rows.0.len()).is_some() {
                    return Err(GraphError(format!("\"{}\" is on two places of the arcs", defs[n].name)));
                }
                ends.insert((n, e), end);
                places.push(Place { row: rows.0.len(), first, edges });
                rows.0.push(Row { any: false, key: arc.key, by_interface: Vec::new() });
            }
            plans.push(ArcPlan { name: arc.name, features: order, places });
        }

        let mut targets: Vec<Vec<(usize, u16)>> = Vec::new();
        for (n, d) in defs.iter().enumerate() {
            let mut of_node = Vec::new();
            for (e, name) in d.edges.iter().enumerate() {
                of_node.push(match (entries.get(&(n, e)), ends.get(&(n, e))) {
                    (Some(&row), Some(&end)) => (end, row as u16),
                    _ if name == CONTINUE => {
                        return Err(GraphError(format!(
                            "node \"{}\" has the edge \"{CONTINUE}\", but is on no arc",
                            d.name
                        )));
                    }
                    _ => (node(name, &format!("node \"{}\"", d.name))?, NO_ROW),
                });
            }
            targets.push(of_node);
        }

        let order = rank::order(&targets.iter().map(|t| t.iter().map(|x| x.0).collect()).collect::<Vec<_>>());
        let mut place = vec![0u32; defs.len()];
        for (rank, &n) in order.iter().enumerate() {
            place[n] = rank as u32;
        }
        let mut slots: Vec<Option<Def>> = defs.into_iter().map(Some).collect();
        let (mut infos, mut makes, mut first_reason) = (Vec::new(), Vec::new(), 0);
        for &n in &order {
            let Some(def) = slots[n].take() else { continue };
            let of_node: Vec<Target> =
                targets[n].iter().map(|&(node, row)| Target { node: place[node], row }).collect();
            let arc_edges = (0..of_node.len() as u8).filter(|&e| of_node[e as usize].row != NO_ROW).collect();
            infos.push(NodeInfo {
                name: def.name,
                input: def.input,
                edges: def.edges,
                reasons: def.reasons,
                first_reason,
                trace: def.trace,
                targets: of_node,
                arc_edges,
            });
            first_reason += def.reasons.len() as u32;
            makes.push(def.make);
        }
        let (writer, reader) = published(domain, rows);
        let nodes: Arc<[NodeInfo]> = infos.into();
        let blueprint = Blueprint {
            stats: Stats::new(&nodes, first_reason, main_reasons),
            tracer: Tracer::new(nodes.clone(), field_traces, domain),
            nodes,
            makes,
            rows: reader,
            punt_reasons: punt_reasons.into(),
            domain: domain.clone(),
            exchange: Exchange::default(),
        };
        Ok((blueprint, ArcControl::new(plans, writer)))
    }
}

/// Adds an edge unless it is there already.
fn push_edge(node: &str, edges: &mut Vec<String>, to: &str) -> Result<u8, GraphError> {
    if let Some(e) = edges.iter().position(|e| e == to) {
        return Ok(e as u8);
    }
    if edges.len() >= usize::from(FIRST_REASON) {
        return Err(GraphError(format!("node \"{node}\" has more than {FIRST_REASON} edges")));
    }
    edges.push(to.to_string());
    Ok((edges.len() - 1) as u8)
}

/// The features of an arc in an order that keeps every `after` and `before`; ties keep the order of declaration.
fn sort_features(arc: &str, mut left: Vec<&FeatureDef>) -> Result<Vec<&'static str>, GraphError> {
    let mut order = Vec::new();
    while !left.is_empty() {
        let free = left.iter().position(|f| {
            left.iter()
                .all(|g| f.node == g.node || (!f.after.contains(&g.node) && !g.before.contains(&f.node)))
        });
        let Some(i) = free else {
            let names: Vec<&str> = left.iter().map(|f| f.node).collect();
            return Err(GraphError(format!(
                "the order of arc \"{arc}\" is a cycle among {}",
                names.join(", ")
            )));
        };
        order.push(left.remove(i).node);
    }
    Ok(order)
}

/// A built graph, from which workers are made.
pub struct Blueprint {
    pub(crate) nodes: Arc<[NodeInfo]>,
    pub(crate) makes: Vec<Make>,
    pub(crate) rows: Reader<Rows>,
    pub(crate) punt_reasons: Arc<[PuntInfo]>,
    pub(crate) domain: Domain,
    pub(crate) stats: Stats,
    pub(crate) tracer: Tracer,
    pub(crate) exchange: Exchange,
}

impl Blueprint {
    /// The nodes in the order in which they run.
    pub fn nodes(&self) -> &[NodeInfo] {
        &self.nodes
    }

    /// The node with this name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().position(|n| n.name == name).map(|i| NodeId(i as u32))
    }

    /// Run-time statistics and drop counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Punt reasons in the order of their numbers.
    pub fn punt_reasons(&self) -> &[PuntInfo] {
        &self.punt_reasons
    }

    /// The rings between workers.
    pub fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// Packet traces.
    pub fn tracer(&self) -> &Tracer {
        &self.tracer
    }
}
