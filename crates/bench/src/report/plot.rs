//! Plots as data.

/// Mark of results that the tester may have limited.
pub const LIMITED: &str = "†";

/// A plot of some series over a common x axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Title.
    pub title: String,
    /// The horizontal axis, with its unit.
    pub x: Axis,
    /// The vertical axis, with its unit.
    pub y: Axis,
    /// The series: at least one, each with at least one point.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The quantity, with its unit.
    pub label: String,
    /// True for a logarithmic axis, on which values of at most 1e-9, such as 0, are not drawn.
    pub logarithmic: bool,
}

/// A series of points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name, shown in the legend.
    pub name: String,
    /// How the series is drawn.
    pub kind: Kind,
    /// Color: the same number for all series of a router, in all plots of a report.
    pub color: usize,
    /// The points, in the order in which they are joined.
    pub points: Vec<Dot>,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Measured: filled markers, joined by a line.
    Measured,
    /// A curve of very many points: a line without markers.
    Curve,
    /// Published elsewhere: hollow markers without a line.
    Published,
}

/// A point, with an optional error bar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dot {
    /// Position on the horizontal axis.
    pub x: f64,
    /// Position on the vertical axis.
    pub y: f64,
    /// The minimum and maximum of the runs, if there are several.
    pub range: Option<(f64, f64)>,
    /// True if the tester, not the router, may have limited this result. The plot marks such a point.
    pub limited: bool,
}

impl Axis {
    /// Makes a linear axis.
    pub fn linear(label: &str) -> Axis {
        Axis { label: label.into(), logarithmic: false }
    }

    /// Makes a logarithmic axis.
    pub fn logarithmic(label: &str) -> Axis {
        Axis { label: label.into(), logarithmic: true }
    }

    /// Makes a logarithmic axis if all values are above 0 and the maximum is far above the minimum (over 20 times); else a linear one.
    pub fn spanning(label: &str, values: impl IntoIterator<Item = f64>) -> Axis {
        const MUCH: f64 = 20.0;
        let ends = values.into_iter().fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
        Axis { label: label.into(), logarithmic: ends.0 > 0.0 && ends.1 > MUCH * ends.0 }
    }

    /// True if a value can be drawn on this axis. Measured values are never as large as 1e15, so larger ones are not drawn.
    fn has(&self, value: f64) -> bool {
        value.is_finite() && value.abs() < 1e15 && (!self.logarithmic || value > 1e-9)
    }
}

impl Dot {
    /// Makes a point without a range.
    pub fn new(x: f64, y: f64) -> Dot {
        Dot { x, y, range: None, limited: false }
    }

    /// Returns the point with the new value of `limited`: true if the tester may have limited the result. The plot marks such a
    /// point.
    pub fn marked(self, limited: bool) -> Dot {
        Dot { limited, ..self }
    }
}

impl Series {
    /// Returns the text of the legend. † marks a series with points that the tester may have limited.
    pub fn label(&self) -> String {
        match self.points.iter().any(|dot| dot.limited) && !self.name.contains(LIMITED) {
            true => format!("{} {LIMITED}", self.name),
            false => self.name.clone(),
        }
    }
}

/// Numbers the series of each color from 0, so that series of the same color can differ in dashes, markers and width. With `colors`
/// colors, two series have the same color if their color numbers are equal modulo `colors`.
pub fn variants(all: &[Series], colors: usize) -> Vec<usize> {
    let is_alike = |one: &Series, other: &Series| one.color % colors == other.color % colors;
    let same = |at: usize| all[..at].iter().filter(|other| is_alike(other, &all[at])).count();
    (0..all.len()).map(same).collect()
}

impl Plot {
    /// Makes a plot of the points that can be drawn; `None` if there are none.
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

    /// Returns the caption: the title, and the meaning of the mark † if the plot has marked points.
    pub fn caption(&self) -> String {
        let limited = self.series.iter().flat_map(|s| &s.points).any(|dot| dot.limited);
        let note = if limited { "; †: limited by the tester, the router may do more" } else { "" };
        format!("{}{note}", self.title)
    }

    /// Returns the text for people who cannot see the plot (`aria-label`).
    pub fn alternative(&self) -> String {
        let names: Vec<String> = self.series.iter().map(Series::label).collect();
        let Plot { title, x, y, .. } = self;
        let numbers = match self.series.iter().any(|s| s.kind == Kind::Curve) {
            true => "Its percentiles are in the table of this section, which also counts lost frames.",
            false => "The values of its points are in the tables of this report.",
        };
        format!("{title}: {} over {}, of {}. {numbers}", y.label, x.label, names.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limited_points_are_marked_in_legend_and_caption() {
        let series = |name: &str, limited| Series {
            name: name.into(),
            kind: Kind::Measured,
            color: 0,
            points: vec![Dot::new(1.0, 1.0), Dot::new(2.0, 2.0).marked(limited)],
        };
        let plot = |limited| {
            let all = [series("linux", limited), series("volley", false)];
            Plot::new("Loss", Axis::linear("kfps"), Axis::linear("%"), all).expect("a plot")
        };
        assert_eq!(plot(true).series.iter().map(Series::label).collect::<Vec<_>>(), ["linux †", "volley"]);
        assert_eq!(plot(true).caption(), "Loss; †: limited by the tester, the router may do more");
        assert_eq!(plot(false).caption(), "Loss");
        assert_eq!(series("one †, two", true).label(), "one †, two");
    }

    #[test]
    fn series_of_a_color_differ_in_their_variant() {
        let of = |color| Series { name: String::new(), kind: Kind::Curve, color, points: Vec::new() };
        assert_eq!(variants(&[of(3), of(3), of(1), of(3), of(1)], 7), [0, 1, 0, 2, 1]);
        // With more routers than colors, colors repeat.
        assert_eq!(variants(&[of(1), of(8), of(8), of(15), of(2)], 7), [0, 1, 2, 3, 0]);
    }

    #[test]
    fn an_axis_is_logarithmic_for_a_large_range() {
        let logarithmic = |values: &[f64]| Axis::spanning("kfps", values.iter().copied()).logarithmic;
        assert!(logarithmic(&[100.0, 12_000.0]));
        assert!(!logarithmic(&[100.0, 2000.0]));
        // A result of 0 must be shown, and cannot be on a logarithmic axis.
        assert!(!logarithmic(&[0.0, 100.0, 12_000.0]));
        assert!(!logarithmic(&[]));
    }
}
