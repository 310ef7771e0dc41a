//! Builds the graph: replaces all names (of nodes, arcs and features) by numbers. If a name is wrong, the
//! router does not start, and reports a clear error.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use infra::class_a::published;
use infra::quiesce::Domain;

use crate::arc::{ArcControl, ArcPlan, CONTINUE, Place, Row, Rows};
use crate::build::{ArcDef, Blueprint, Builder, Def, FeatureDef, GraphError, push_edge};
use crate::edge::FIRST_REASON;
use crate::erased::Make;
use crate::handoff::Exchange;
use crate::info::{NO_NODE, NO_ROW, NodeInfo, Target};
use crate::rank;
use crate::stats::Stats;
use crate::trace::Tracer;

/// Maximum number of features of an arc: each is one bit of a word.
const ARC_FEATURES: usize = 64;

impl Builder {
    /// Resolves all names.
    ///
    /// # Errors
    /// Fails if a name is undefined or used twice, if the order of an arc's features cannot be satisfied, if a feature is on two arcs or
    /// has no edge [`CONTINUE`], if a node without an arc has that edge, if an edge leads to an input node, or if there are too many edges,
    /// reasons or features.
    pub fn build(self, domain: &Domain) -> Result<(Blueprint, ArcControl), GraphError> {
        let Builder {
            mut defs,
            arcs,
            features,
            punt_reasons,
            main_reasons,
            more_reasons,
            fields: _,
            field_traces,
        } = self;
        for (node, list) in more_reasons {
            let of = defs.iter_mut().filter(|def| def.name == node);
            of.for_each(|def| def.reasons.extend(list.all()));
        }
        let names = Names::new(&defs)?;
        check_features(&features, &arcs)?;
        let mut entries = Entries::default();
        for (i, arc) in arcs.iter().enumerate() {
            if arcs[..i].iter().any(|a| a.name == arc.name) {
                return Err(GraphError(format!("there are two arcs \"{}\"", arc.name)));
            }
            let order = sort_features(arc.name, features.iter().filter(|f| f.arc == arc.name).collect())?;
            entries.add(arc, order, &names, &mut defs)?;
        }
        if let Some(name) = main_reasons.repeated() {
            return Err(GraphError(format!("two reasons of the main thread have the name \"{name}\"")));
        }
        let targets = targets(&defs, &names, &entries)?;
        let (nodes, makes) = in_order(defs, &targets);
        let reasons = nodes.iter().map(|n| n.reasons.len() as u32).sum();
        let (writer, reader) = published(domain, entries.rows);
        let blueprint = Blueprint {
            stats: Stats::new(&nodes, reasons, main_reasons),
            tracer: Tracer::new(nodes.clone(), field_traces, domain),
            nodes,
            makes,
            rows: reader,
            punt_reasons: punt_reasons.into(),
            domain: domain.clone(),
            exchange: Exchange::default(),
        };
        Ok((blueprint, ArcControl::new(entries.plans, writer)))
    }
}

/// Nodes by name. Their numbers are in the order in which they were added.
struct Names {
    by_name: HashMap<&'static str, usize>,
    inputs: Vec<bool>,
}

impl Names {
    /// # Errors
    /// Fails if two nodes have the same name, or if a node has more edges or reasons than there are codes.
    fn new(defs: &[Def]) -> Result<Names, GraphError> {
        let mut by_name = HashMap::new();
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
        Ok(Names { by_name, inputs: defs.iter().map(|d| d.input).collect() })
    }

    /// Returns the number of the node `name`, to which an edge or an arc leads. `who` describes this edge or
    /// arc in error texts.
    fn node(&self, name: &str, who: &str) -> Result<usize, GraphError> {
        match self.by_name.get(name) {
            Some(&n) if self.inputs[n] => Err(GraphError(format!(
                "{who} leads to \"{name}\", which is an input node: nothing can be sent there"
            ))),
            Some(&n) => Ok(n),
            None => Err(GraphError(format!("{who} leads to \"{name}\", which is not a node"))),
        }
    }
}

/// Checks that each feature's arc exists, and that the features in its `before` and `after` are on the same
/// arc.
fn check_features(features: &[FeatureDef], arcs: &[ArcDef]) -> Result<(), GraphError> {
    for f in features {
        if !arcs.iter().any(|a| a.name == f.arc) {
            return Err(GraphError(format!(
                "feature \"{}\" is for the arc \"{}\", which does not exist",
                f.node, f.arc
            )));
        }
        let ordered = f.after.iter().map(|n| (n, "after")).chain(f.before.iter().map(|n| (n, "before")));
        for (other, side) in ordered {
            if !features.iter().any(|g| g.arc == f.arc && g.node == *other) {
                return Err(GraphError(format!(
                    "feature \"{}\" must come {side} \"{other}\", which is not on arc \"{}\"",
                    f.node, f.arc
                )));
            }
        }
    }
    Ok(())
}

/// Sorts the features of an arc by `after` and `before`. Features that `after` and `before` do not order keep
/// the order in which they were declared.
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
                "the features of arc \"{arc}\" cannot be ordered: the `after` and `before` of these features form a cycle: {}",
                names.join(", ")
            )));
        };
        order.push(left.remove(i).node);
    }
    Ok(order)
}

/// Collects the edges by which packets enter the arcs, while the arcs are added. Each of these edges has a
/// [`Row`] in `rows`, with the edge to the first enabled feature for each interface. `plans` describes the
/// arcs for the control plane ([`ArcPlan`]).
#[derive(Default)]
struct Entries {
    rows: Rows,
    plans: Vec<ArcPlan>,
    /// For each edge that enters an arc, by node and edge number: the row of the edge, and the end node of
    /// the arc.
    at: BTreeMap<(usize, usize), (usize, usize)>,
}

impl Entries {
    /// Adds an arc with its features in the given order. Each node from which packets enter the arc gets edges to all features; each
    /// feature gets edges to the later ones.
    fn add(
        &mut self,
        arc: &ArcDef,
        order: Vec<&'static str>,
        names: &Names,
        defs: &mut [Def],
    ) -> Result<(), GraphError> {
        let end = names.node(arc.end, &format!("arc \"{}\"", arc.name))?;
        if order.len() > ARC_FEATURES {
            return Err(GraphError(format!("arc \"{}\" has more than {ARC_FEATURES} features", arc.name)));
        }
        let mut places = Vec::new();
        for Start { node, edge, first } in starts(arc, &order, names, defs)? {
            let def = &mut defs[node];
            let edges = order[first..].iter().map(|f| push_edge(def.name, &mut def.edges, f));
            let edges = edges.collect::<Result<_, _>>()?;
            if self.at.insert((node, edge), (self.rows.0.len(), end)).is_some() {
                return Err(GraphError(format!(
                    "node \"{}\" is a feature twice: a node can be a feature of one arc only",
                    def.name
                )));
            }
            places.push(Place { row: self.rows.0.len(), first, edges });
            self.rows.0.push(Row { any: false, key: arc.key, by_interface: Vec::new() });
        }
        self.plans.push(ArcPlan { name: arc.name, features: order, places });
        Ok(())
    }
}

/// An edge of a node by which packets enter an arc or continue on it. `first` is the position of the first
/// feature that these packets can reach.
struct Start {
    node: usize,
    edge: usize,
    first: usize,
}

/// Returns the edges by which packets enter an arc, and the edges by which the arc's features pass packets
/// on.
fn starts(
    arc: &ArcDef,
    order: &[&'static str],
    names: &Names,
    defs: &[Def],
) -> Result<Vec<Start>, GraphError> {
    let mut starts = Vec::new();
    // If the node with the arc's name is the start of the arc, the edges of other nodes with this name lead
    // to that node, not into the arc.
    let own = names.by_name.get(arc.name).copied();
    let begins = own.filter(|&n| defs[n].edges.iter().any(|e| e == arc.name));
    for (node, d) in defs.iter().enumerate() {
        if begins.is_some_and(|b| b != node) {
            continue;
        }
        let into = d.edges.iter().enumerate().filter(|(_, e)| *e == arc.name);
        starts.extend(into.map(|(edge, _)| Start { node, edge, first: 0 }));
    }
    for (position, name) in order.iter().enumerate() {
        let node = names.node(name, &format!("arc \"{}\"", arc.name))?;
        let edge =
            defs[node].edges.iter().position(|e| e == CONTINUE).ok_or_else(|| {
                GraphError(format!("\"{name}\" is a feature, but has no edge \"{CONTINUE}\""))
            })?;
        starts.push(Start { node, edge, first: position + 1 });
    }
    Ok(starts)
}

/// Returns the targets of each node's edges. A target is the node to which the edge leads, and [`NO_ROW`]. If
/// the edge enters an arc, the target is the arc's end node, and the row of the edge.
fn targets(defs: &[Def], names: &Names, entries: &Entries) -> Result<Vec<Vec<(usize, u16)>>, GraphError> {
    let of_edge = |n: usize, e: usize, name: &String| match entries.at.get(&(n, e)) {
        Some(&(row, end)) => Ok((end, row as u16)),
        None if name == CONTINUE => Err(GraphError(format!(
            "node \"{}\" has the edge \"{CONTINUE}\", but is not on an arc",
            defs[n].name
        ))),
        None => Ok((names.node(name, &format!("node \"{}\"", defs[n].name))?, NO_ROW)),
    };
    let of_node =
        |(n, d): (usize, &Def)| d.edges.iter().enumerate().map(|(e, name)| of_edge(n, e, name)).collect();
    defs.iter().enumerate().map(of_node).collect()
}

/// Returns the nodes in running order, and the functions that make them.
fn in_order(defs: Vec<Def>, targets: &[Vec<(usize, u16)>]) -> (Arc<[NodeInfo]>, Vec<Make>) {
    let order = rank::order(&targets.iter().map(|t| t.iter().map(|x| x.0).collect()).collect::<Vec<_>>());
    let mut place = vec![0u32; defs.len()];
    for (rank, &n) in order.iter().enumerate() {
        place[n] = rank as u32;
    }
    // A graph may have only a part of the nodes.
    let number = |name: &&str| defs.iter().position(|d| d.name == *name).map_or(NO_NODE, |n| place[n]);
    let through: Vec<Vec<u32>> = defs.iter().map(|d| d.through.iter().map(number).collect()).collect();
    let mut slots: Vec<Option<Def>> = defs.into_iter().map(Some).collect();
    let (mut infos, mut makes, mut first_reason) = (Vec::new(), Vec::new(), 0);
    for &n in &order {
        let Some(def) = slots[n].take() else { continue };
        let reasons = def.reasons.len() as u32;
        let of_node: Vec<Target> =
            targets[n].iter().map(|&(node, row)| Target { node: place[node], row }).collect();
        let arc_edges = (0..of_node.len() as u8).filter(|&e| of_node[e as usize].row != NO_ROW).collect();
        infos.push(NodeInfo {
            name: def.name,
            input: def.input,
            edges: def.edges,
            reasons: def.reasons.into(),
            first_reason,
            trace: def.trace,
            targets: of_node,
            arc_edges,
            through: through[n].clone(),
        });
        first_reason += reasons;
        makes.push(def.make);
    }
    (infos.into(), makes)
}
