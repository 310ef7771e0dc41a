//! The running order of nodes: a node runs before the nodes to which its edges lead. Because the graph has
//! cycles (tunnels), the order is that of the strongly connected components (Tarjan, "Depth-first search and
//! linear graph algorithms", 1972).

/// Returns the nodes in running order. `edges[n]` lists the nodes to which the edges of node `n` lead.
pub(crate) fn order(edges: &[Vec<usize>]) -> Vec<usize> {
    let n = edges.len();
    let mut s = Search {
        edges,
        index: vec![usize::MAX; n],
        low: vec![0; n],
        on_stack: vec![false; n],
        stack: Vec::new(),
        components: Vec::new(),
        next: 0,
    };
    for v in 0..n {
        if s.index[v] == usize::MAX {
            s.visit(v);
        }
    }
    // Tarjan's algorithm closes a component after all components that can be reached from it. So the component closed last runs first.
    s.components.reverse();
    s.components.iter_mut().for_each(|c| c.sort_unstable());
    s.components.concat()
}

struct Search<'e> {
    edges: &'e [Vec<usize>],
    index: Vec<usize>,
    low: Vec<usize>,
    on_stack: Vec<bool>,
    stack: Vec<usize>,
    components: Vec<Vec<usize>>,
    next: usize,
}

impl Search<'_> {
    fn visit(&mut self, v: usize) {
        self.index[v] = self.next;
        self.low[v] = self.next;
        self.next += 1;
        self.stack.push(v);
        self.on_stack[v] = true;
        let edges = self.edges;
        for &w in &edges[v] {
            if self.index[w] == usize::MAX {
                self.visit(w);
                self.low[v] = self.low[v].min(self.low[w]);
            } else if self.on_stack[w] {
                self.low[v] = self.low[v].min(self.index[w]);
            }
        }
        if self.low[v] == self.index[v] {
            let first = self.stack.iter().position(|&w| w == v).unwrap_or(0);
            let component = self.stack.split_off(first);
            component.iter().for_each(|&w| self.on_stack[w] = false);
            self.components.push(component);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::order;

    #[test]
    fn a_node_runs_before_its_successors() {
        // 3 → 1 → 2 → 0, and 1 → 0.
        assert_eq!(order(&[vec![], vec![2, 0], vec![0], vec![1]]), [3, 1, 2, 0]);
    }

    #[test]
    fn nodes_of_a_cycle_have_adjacent_ranks() {
        // 0 → 1 → 2 → 1, 2 → 3.
        assert_eq!(order(&[vec![1], vec![2], vec![1, 3], vec![]]), [0, 1, 2, 3]);
    }
}
