//! Collects the parts of the graph. The built graph is a [`Blueprint`].

use std::collections::BTreeSet;
use std::fmt::{self, Write};
use std::io;
use std::sync::Arc;

use buf::{FeatureField, FeatureFields, Field};
use infra::class_a::Reader;
use infra::quiesce::Domain;

use crate::arc::{ArcKey, CONTINUE, Rows};
use crate::edge::{EdgeId, Edges, FIRST_REASON, MoreReasons, NodeId, ReasonInfo, Reasons};
use crate::entry::TraceFn;
use crate::erased::{Make, OfFrame, OfInput, OfPacket};
use crate::handoff::Exchange;
use crate::info::NodeInfo;
use crate::main_thread::MainReasons;
use crate::node::{FrameNode, InputNode, PacketNode, Setup};
use crate::rings::{PuntInfo, PuntReason};
use crate::stats::Stats;
use crate::trace::{FieldTrace, Tracer};

/// An error that prevents the start of the router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphError(pub String);

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the graph cannot be built: {}", self.0)
    }
}
impl std::error::Error for GraphError {}

/// A name that is used but not defined; see [`Builder::missing`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// The node to which an edge leads, or at which an arc ends.
    Node(String),
    /// The node of a feature of an arc.
    Feature(&'static str),
    /// A feature before or after which another feature must be placed.
    Order {
        /// The arc.
        arc: &'static str,
        /// The missing feature.
        feature: &'static str,
    },
}

pub(crate) struct Def {
    pub(crate) name: &'static str,
    pub(crate) input: bool,
    pub(crate) edges: Vec<String>,
    pub(crate) reasons: Vec<&'static ReasonInfo>,
    pub(crate) trace: TraceFn,
    /// The names of the nodes through which the node can take packets itself.
    pub(crate) through: &'static [&'static str],
    pub(crate) make: Make,
}

pub(crate) struct ArcDef {
    pub(crate) name: &'static str,
    pub(crate) end: &'static str,
    pub(crate) key: ArcKey,
}

pub(crate) struct FeatureDef {
    pub(crate) arc: &'static str,
    pub(crate) node: &'static str,
    pub(crate) after: Vec<&'static str>,
    pub(crate) before: Vec<&'static str>,
}

/// Collects the parts of the graph.
#[derive(Default)]
pub struct Builder {
    pub(crate) defs: Vec<Def>,
    pub(crate) arcs: Vec<ArcDef>,
    pub(crate) features: Vec<FeatureDef>,
    pub(crate) punt_reasons: Vec<PuntInfo>,
    pub(crate) main_reasons: MainReasons,
    pub(crate) more_reasons: Vec<(&'static str, MoreReasons)>,
    pub(crate) fields: FeatureFields,
    pub(crate) field_traces: Vec<FieldTrace>,
}

impl Builder {
    /// Adds a node that processes packets one by one. `make` creates the node; it is called once for each
    /// worker.
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

    /// Adds a node that processes frames. `make` creates the node; it is called once for each worker.
    pub fn frame<T: FrameNode>(
        &mut self,
        make: impl Fn(&mut Setup) -> io::Result<T> + Send + Sync + 'static,
    ) {
        self.frame_as(T::NAME, make);
    }

    /// Adds a node that processes frames, with the name `name` instead of [`FrameNode::NAME`]: a type can have several nodes.
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
        if let Some(def) = self.defs.last_mut() {
            def.through = T::THROUGH;
        }
    }

    /// Adds an input node. Its name is a parameter, because several drivers may use the same type.
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
        let reasons = D::INFO.iter().collect();
        self.defs.push(Def { name, input, edges, reasons, trace, through: &[], make });
    }

    /// Declares an arc: packets that enter it go to the node `end` unless a feature takes them.
    ///
    /// An edge with the arc's name enters the arc, even if the node `end` has the same name. There is one exception: a node that has the
    /// arc's name may also have an edge with the arc's name. Then only the edge of this node enters the arc. Edges of other nodes with the
    /// arc's name lead to this node.
    pub fn arc(&mut self, name: &'static str, end: &'static str, key: ArcKey) {
        self.arcs.push(ArcDef { name, end, key });
    }

    /// Makes an arc end at another node. For example, a node that captures drops can replace `drop`.
    ///
    /// # Errors
    /// Fails if the arc does not exist.
    pub fn end_arc_at(&mut self, arc: &str, end: &'static str) -> Result<(), GraphError> {
        let def = self.arcs.iter_mut().find(|a| a.name == arc);
        def.ok_or_else(|| {
            GraphError(format!("arc \"{arc}\" cannot end at \"{end}\": there is no such arc"))
        })?
        .end = end;
        Ok(())
    }

    /// Adds a node to an arc as a feature. Packets visit it after the features in `after`, and before those in `before`. The node's
    /// edge [`CONTINUE`] leads to the next feature.
    pub fn feature(
        &mut self,
        arc: &'static str,
        node: &'static str,
        after: &[&'static str],
        before: &[&'static str],
    ) {
        self.features.push(FeatureDef { arc, node, after: after.to_vec(), before: before.to_vec() });
    }

    /// Allocates a field in each packet for a feature. One node of the feature writes data about the packet to the field, and the feature's
    /// other nodes read them: see [`buf::feature`]. The nodes get the handle of the field when they are made. `trace` writes the field's
    /// text for a packet trace, which shows the text at every node on the packet's path.
    ///
    /// # Errors
    /// Fails if the feature already has a field, or if the packet has no room for the field. In the second case, the error text lists the
    /// features with fields.
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

    /// Returns the packet field of another feature, for nodes that read it. Install that feature before this call.
    ///
    /// # Errors
    /// Fails if that feature has no field, or a field of another type.
    pub fn field_of<T: Field>(&self, feature: &str) -> Result<FeatureField<T>, GraphError> {
        self.fields.find(feature).map_err(GraphError)
    }

    /// Declares a punt reason. `rate` is the maximum number of packets per second that one worker passes to the main thread for this
    /// reason.
    pub fn punt_reason(&mut self, name: &'static str, rate: u32) -> PuntReason {
        self.punt_reasons.push(PuntInfo::new(name, rate));
        PuntReason(self.punt_reasons.len() as u32 - 1)
    }

    /// Declares reasons for which the main thread discards packets. Their names must differ from the names of
    /// the main thread's other reasons.
    pub fn main_reasons<D: Reasons>(&mut self) {
        self.main_reasons.add::<D>();
    }

    /// Adds the reasons in `list` to the node `node`, after the node's own reasons. Features may add reasons to the list until the
    /// graph is built.
    pub fn more_reasons(&mut self, node: &'static str, list: &MoreReasons) {
        self.more_reasons.push((node, list.clone()));
    }

    /// Adds an edge from the existing node `from` to the node or arc `to`, unless the node already has this edge.
    ///
    /// # Errors
    /// Fails if the node `from` does not exist, or has no room for another edge.
    pub fn edge(&mut self, from: &str, to: &str) -> Result<EdgeId, GraphError> {
        let def = self.defs.iter_mut().find(|d| d.name == from);
        let def = def.ok_or_else(|| {
            GraphError(format!("cannot add an edge from \"{from}\" to \"{to}\": \"{from}\" is not a node"))
        })?;
        Ok(EdgeId(push_edge(def.name, &mut def.edges, to)?))
    }

    /// Returns the nodes and features that are used but not defined. The graph can be built only if there are none. Whether the arcs of
    /// features exist is not checked here.
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
}

/// Returns the number of the edge to `to`; adds the edge if it does not exist.
pub(crate) fn push_edge(node: &str, edges: &mut Vec<String>, to: &str) -> Result<u8, GraphError> {
    if let Some(e) = edges.iter().position(|e| e == to) {
        return Ok(e as u8);
    }
    if edges.len() >= usize::from(FIRST_REASON) {
        return Err(GraphError(format!("node \"{node}\" has more than {FIRST_REASON} edges")));
    }
    edges.push(to.to_string());
    Ok((edges.len() - 1) as u8)
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
    /// Returns the nodes in running order.
    pub fn nodes(&self) -> &[NodeInfo] {
        &self.nodes
    }

    /// Returns the node with this name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().position(|n| n.name == name).map(|i| NodeId(i as u32))
    }

    /// Returns the run-time statistics and drop counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Returns the punt reasons, by number.
    pub fn punt_reasons(&self) -> &[PuntInfo] {
        &self.punt_reasons
    }

    /// Returns the rings between workers.
    pub fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// Packet traces.
    pub fn tracer(&self) -> &Tracer {
        &self.tracer
    }
}
