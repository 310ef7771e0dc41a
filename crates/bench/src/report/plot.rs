//! Plots as data.

/// A plot of some series over one axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// What it shows, in a few words.
    pub title: String,
    /// What goes to the right, with its unit.
    pub x: Axis,
    /// What goes up, with its unit.
    pub y: Axis,
    /// At least one, each with at least one point.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What is on it, with its unit.
    pub label: String,
    /// Logarithmic; what is not above 0 is not on it.
    pub logarithmic: bool,
}

/// A series of points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What the legend says.
    pub name: String,
    /// How it is drawn.
    pub kind: Kind,
    /// In the order in which they are joined.
    pub points: Vec<Dot>,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Measured: filled markers, joined by a line.
    Measured,
    /// A curve of very many points: a line alone.
    Curve,
    /// Published elsewhere: hollow markers, which nothing joins.
    Published,
}

/// A point, and how far it may be off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dot {
    /// To the right.
    pub x: f64,
    /// Up.
    pub y: f64,
    /// From the least to the greatest run, where there are several.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// With equal steps.
    pub fn linear(label: &str) -> Axis {
        Axis { label: label.into(), logarithmic: false }
    }

    /// With equal factors.
    pub fn logarithmic(label: &str) -> Axis {
        Axis { label: label.into(), logarithmic: true }
    }

    /// With equal factors if the greatest of these values is very much more than the least, and all are above 0; else with equal steps.
    pub fn spanning(label: &str, values: impl IntoIterator<Item = f64>) -> Axis {
        const MUCH: f64 = 20.0;
        let ends = values.into_iter().fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
        Axis { label: label.into(), logarithmic: ends.0 > 0.0 && ends.1 > MUCH * ends.0 }
    }

    /// Whether a value can be drawn. Beyond 1e15 nothing is, for nothing that is measured is so large.
    fn has(&self, value: f64) -> bool {
        value.is_finite() && value.abs() < 1e15 && (!self.logarithmic || value > 1e-9)
    }
}

impl Dot {
    /// Without a range.
    pub fn new(x: f64, y: f64) -> Dot {
        Dot { x, y, range: None }
    }
}

impl Plot {
    /// One of the points that can be drawn; `None` when none can.
    pub fn new(
        title: impl Into<String>,
        x: Axis,
        y: Axis,
        series: impl IntoIterator<Item = Series>,
    ) -> Option<Plot> {
        let drawable = |mut one: Series| {
            one.points.retain(|dot| x.has(dot.x) && y.has(dot.y));
            for dot in &mut one.points {
                dot.range = dot.range.filter(|(low, high)| y.has(*low) && y.has(*high) && low <= high);
            }
            (!one.points.is_empty()).then_some(one)
        };
        let series: Vec<Series> = series.into_iter().filter_map(drawable).collect();
        (!series.is_empty()).then(|| Plot { title: title.into(), x, y, series })
    }

    /// What those hear who do not see it.
    pub fn alternative(&self) -> String {
        let names: Vec<&str> = self.series.iter().map(|s| s.name.as_str()).collect();
        let Plot { title, x, y, .. } = self;
        let numbers = match self.series.iter().any(|s| s.kind == Kind::Curve) {
            true => "Percentiles of it are in the table of this section, where lost frames count, too.",
            false => "The numbers of its points are in the tables of this report.",
        };
        format!("{title}: {} over {}, of {}. {numbers}", y.label, x.label, names.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_is_logarithmic_where_small_values_would_not_be_told_apart() {
        let logarithmic = |values: &[f64]| Axis::spanning("kfps", values.iter().copied()).logarithmic;
        assert!(logarithmic(&[100.0, 12_000.0]));
        assert!(!logarithmic(&[100.0, 2000.0]));
        // 0 is not on a logarithmic axis, and is a result.
        assert!(!logarithmic(&[0.0, 100.0, 12_000.0]));
        assert!(!logarithmic(&[]));
    }
}
