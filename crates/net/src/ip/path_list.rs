//! The paths of a route: one, or several that share the route's flows.

use std::fmt;
use std::sync::Arc;

use super::balance::MAX_WAYS;
use super::path::Path;

/// One of several paths of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weighted {
    /// The path. It leads to a neighbor, a link, or an entry of a feature's table.
    pub path: Path,
    /// The path's share of the flows relative to the other paths: 1 to 255.
    pub weight: u8,
}

/// The reason why a list of paths is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPaths {
    /// The list is empty.
    None,
    /// The list has more than [`MAX_WAYS`] paths.
    TooMany,
    /// A weight is 0.
    NoWeight,
    /// A path occurs twice.
    Twice,
    /// One of several paths leads to no neighbor, link or entry of a feature's table. Such a path cannot
    /// share flows with other paths.
    Alone,
}

impl fmt::Display for BadPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadPaths::None => {
                f.write_str("the route has no path: give a next hop, an interface or an action such as drop")
            }
            BadPaths::TooMany => write!(f, "a route can have at most {MAX_WAYS} paths"),
            BadPaths::NoWeight => f.write_str("the weight of a path must be 1 to 255"),
            BadPaths::Twice => f.write_str("the same path is given twice"),
            BadPaths::Alone => f.write_str(
                "a path that is neither a next hop nor an interface must be the only path of its route",
            ),
        }
    }
}
impl std::error::Error for BadPaths {}

/// The paths of a route. Routes of a VRF with equal lists share one forwarding object, unless their flows are laid out differently on the
/// paths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathList {
    /// One path.
    One(Path),
    /// Several different paths, in order.
    Several(Arc<[Weighted]>),
}

impl From<Path> for PathList {
    fn from(path: Path) -> PathList {
        PathList::One(path)
    }
}

impl PathList {
    /// Returns the list of these paths, which may be in any order.
    ///
    /// # Errors
    /// Fails if the paths are no valid list.
    pub fn new(mut paths: Vec<Weighted>) -> Result<PathList, BadPaths> {
        if paths.iter().any(|p| p.weight == 0) {
            return Err(BadPaths::NoWeight);
        }
        paths.sort_unstable();
        match paths[..] {
            [] => Err(BadPaths::None),
            [one] => Ok(PathList::One(one.path)),
            _ if paths.len() > MAX_WAYS => Err(BadPaths::TooMany),
            _ if paths.windows(2).any(|two| two[0].path == two[1].path) => Err(BadPaths::Twice),
            _ if !paths
                .iter()
                .all(|p| matches!(p.path, Path::Via { .. } | Path::Attached(_) | Path::Feature(..))) =>
            {
                Err(BadPaths::Alone)
            }
            _ => Ok(PathList::Several(paths.into())),
        }
    }

    /// Number of paths.
    pub fn ways(&self) -> usize {
        match self {
            PathList::One(_) => 1,
            PathList::Several(paths) => paths.len(),
        }
    }

    /// Returns the paths with their weights.
    pub fn weighted(&self) -> impl Iterator<Item = Weighted> {
        let (one, several) = match self {
            PathList::One(path) => (Some(Weighted { path: *path, weight: 1 }), &[][..]),
            PathList::Several(paths) => (None, &paths[..]),
        };
        one.into_iter().chain(several.iter().copied())
    }

    /// The paths.
    pub fn paths(&self) -> impl Iterator<Item = Path> {
        self.weighted().map(|w| w.path)
    }

    /// Returns the list with `f` applied to each path, or the unchanged list if the new paths are no valid list.
    pub(crate) fn map(self, f: impl Fn(Path) -> Path) -> PathList {
        match self {
            PathList::One(path) => PathList::One(f(path)),
            several => {
                let paths = several.weighted().map(|w| Weighted { path: f(w.path), ..w }).collect();
                PathList::new(paths).unwrap_or(several)
            }
        }
    }

    /// Returns the list without the paths over this interface; `None` if none is left.
    pub fn without(&self, interface: u32) -> Option<PathList> {
        let left = self.weighted().filter(|w| w.path.interface() != Some(interface)).collect();
        PathList::new(left).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn via(n: u32, interface: Option<u32>) -> Weighted {
        Weighted { path: Path::Via { next_hop: Ipv4Addr::from_bits(n).into(), interface }, weight: 1 }
    }

    #[test]
    fn lists_are_equal_in_any_order_of_paths() {
        let list = PathList::new(vec![via(2, None), via(1, None)]).unwrap();
        assert_eq!(list, PathList::new(vec![via(1, None), via(2, None)]).unwrap());
        assert_eq!(PathList::new(vec![via(1, None)]), Ok(via(1, None).path.into()));
    }

    #[test]
    fn invalid_path_lists_are_refused() {
        let drop = Weighted { path: Path::Drop, weight: 1 };
        let none = Weighted { weight: 0, ..via(1, None) };
        let heavy = Weighted { weight: 7, ..via(1, None) };
        let many = (0..65).map(|n| via(n, None)).collect();
        for (paths, why) in [
            (vec![], BadPaths::None),
            (vec![via(1, None), drop], BadPaths::Alone),
            (vec![via(2, None), none], BadPaths::NoWeight),
            (vec![via(1, None), heavy], BadPaths::Twice),
            (many, BadPaths::TooMany),
        ] {
            assert_eq!(PathList::new(paths), Err(why));
        }
    }

    #[test]
    fn paths_are_removed_with_their_interface() {
        let list = PathList::new(vec![via(1, Some(7)), via(2, Some(8)), via(3, Some(7))]).unwrap();
        assert_eq!(list.without(7), Some(via(2, Some(8)).path.into()));
        assert_eq!(list.without(9), Some(list.clone()));
        assert_eq!(PathList::from(via(1, Some(7)).path).without(7), None);
    }
}
