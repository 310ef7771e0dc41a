//! Draws plots as SVG.

use std::fmt;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::element::{ComposedElement, DashedPathElement};
use plotters::prelude::*;
use plotters::style::ShapeStyle;

use super::plot::{Axis, Kind, LIMITED, Plot, Series, variants};

/// Colors that color-blind people can distinguish (Okabe and Ito, Color Universal Design, 2008), without the yellow one, which is hardly
/// visible on white. Markers and dashes differ, too.
const COLORS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(0, 0, 0),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
];
/// Dash and gap of each line style, in pixels.
const DASHES: [(i32, i32); 4] = [(1, 0), (8, 4), (2, 3), (14, 5)];
/// Distance of the mark † from its point, in pixels.
const ASIDE: (i32, i32) = (7, -15);
/// Width in pixels. Two plots fit side by side on a page.
const WIDTH: u32 = 640;
/// Height without the legend, in pixels.
const HEIGHT: u32 = 360;
/// Height of a line of the legend, in pixels.
const LEGEND: u32 = 20;

/// An error of the drawing library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CannotDraw(String);

impl fmt::Display for CannotDraw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot draw a plot: {}", self.0)
    }
}

impl std::error::Error for CannotDraw {}

/// Draws the plot as an `svg` element.
///
/// # Errors
/// Returns an error if the drawing library fails.
pub fn draw(plot: &Plot) -> Result<String, CannotDraw> {
    let dots = || plot.series.iter().flat_map(|s| &s.points);
    let (x, x_log) = (ends(&plot.x, dots().map(|d| d.x)), plot.x.logarithmic);
    let heights = dots().flat_map(|d| [d.y].into_iter().chain(d.range.into_iter().flat_map(|(l, h)| [l, h])));
    let (y, y_log) = (ends(&plot.y, heights), plot.y.logarithmic);
    match (x_log, y_log) {
        (false, false) => draw_in(plot, x.0..x.1, y.0..y.1),
        (true, false) => draw_in(plot, (x.0..x.1).log_scale(), y.0..y.1),
        (false, true) => draw_in(plot, x.0..x.1, (y.0..y.1).log_scale()),
        (true, true) => draw_in(plot, (x.0..x.1).log_scale(), (y.0..y.1).log_scale()),
    }
}

/// Returns the range of an axis for these values. A logarithmic axis extends to the enclosing powers of ten, so that it always has labels.
/// A linear axis includes 0, and has a margin.
fn ends(axis: &Axis, values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    match axis.logarithmic {
        true => (10f64.powf((low / 1.05).log10().floor()), 10f64.powf((high * 1.05).log10().ceil())),
        false => (low.min(0.0) * 1.08, if high > 0.0 { high * 1.08 } else { 1.0 }),
    }
}

fn draw_in<X, Y>(plot: &Plot, x: X, y: Y) -> Result<String, CannotDraw>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let failed = |e: &dyn fmt::Display| CannotDraw(e.to_string());
    let mut out = String::new();
    {
        let tall = HEIGHT + LEGEND * plot.series.len() as u32;
        let root = SVGBackend::with_string(&mut out, (WIDTH, tall)).into_drawing_area();
        root.fill(&WHITE).map_err(|e| failed(&e))?;
        let (above, below) = root.split_vertically(HEIGHT);
        let mut chart = ChartBuilder::on(&above)
            .margin(12)
            .margin_right(28)
            .x_label_area_size(46)
            .y_label_area_size(78)
            .build_cartesian_2d(x, y)
            .map_err(|e| failed(&e))?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(RGBColor(210, 210, 210))
            .x_desc(&plot.x.label)
            .y_desc(&plot.y.label)
            .x_label_formatter(&|v| tick(*v))
            .y_label_formatter(&|v| tick(*v))
            .label_style(("sans-serif", 13))
            .axis_desc_style(("sans-serif", 14))
            .draw()
            .map_err(|e| failed(&e))?;
        let styles: Vec<Style> = plot
            .series
            .iter()
            .zip(variants(&plot.series, COLORS.len()))
            .map(|(s, variant)| Style::of(s, variant))
            .collect();
        for (style, series) in styles.iter().zip(&plot.series) {
            let points: Vec<(f64, f64)> = series.points.iter().map(|d| (d.x, d.y)).collect();
            if series.kind != Kind::Published {
                let drawn = match style.dash {
                    (_, 0) => {
                        chart.draw_series(LineSeries::new(points.iter().copied(), style.line())).map(|_| ())
                    }
                    (dash, gap) => chart
                        .draw_series(DashedLineSeries::new(points.iter().copied(), dash, gap, style.line()))
                        .map(|_| ()),
                };
                drawn.map_err(|e| failed(&e))?;
            }
            let bars = series.points.iter().filter_map(|d| Some((d, d.range?)));
            chart
                .draw_series(
                    bars.map(|(d, (low, high))| ErrorBar::new_vertical(d.x, low, d.y, high, style.line(), 8)),
                )
                .map_err(|e| failed(&e))?;
            if series.kind != Kind::Curve {
                let marks = points.iter().map(|p| style.marker(*p));
                chart.draw_series(marks).map_err(|e| failed(&e))?;
            }
            // A curve has too many points to mark each of them.
            let limited = series.points.iter().filter(|d| d.limited && series.kind != Kind::Curve);
            let signs = limited.map(|d| {
                EmptyElement::at((d.x, d.y)) + Text::new(LIMITED, ASIDE, ("sans-serif", 15).into_font())
            });
            chart.draw_series(signs).map_err(|e| failed(&e))?;
        }
        for (at, (style, series)) in styles.iter().zip(&plot.series).enumerate() {
            let height = (LEGEND * at as u32 + LEGEND / 2) as i32;
            if series.kind != Kind::Published {
                let ends = [(20, height), (60, height)];
                match style.dash {
                    (_, 0) => below.draw(&PathElement::new(ends, style.line())),
                    (dash, gap) => below.draw(&DashedPathElement::new(ends, dash, gap, style.line())),
                }
                .map_err(|e| failed(&e))?;
            }
            if series.kind != Kind::Curve {
                below.draw(&style.marker((40, height))).map_err(|e| failed(&e))?;
            }
            let text = Text::new(cut(&series.label()), (70, height - 7), ("sans-serif", 13));
            below.draw(&text).map_err(|e| failed(&e))?;
        }
        root.present().map_err(|e| failed(&e))?;
    }
    Ok(out)
}

/// Truncates a name to the width of the legend.
fn cut(name: &str) -> String {
    const ROOM: usize = 80;
    match name.char_indices().nth(ROOM) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// How a series is drawn. All series of a router have the same color. Series of the same color, also of different routers, differ in
/// dashes, markers and width.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Style {
    color: RGBColor,
    /// Width of lines, in pixels.
    width: u32,
    /// Dash and gap, in pixels.
    dash: (i32, i32),
    outline: &'static [(i32, i32)],
    /// Color inside the markers: those of published results are hollow.
    inside: RGBColor,
}

impl Style {
    fn of(series: &Series, variant: usize) -> Style {
        let color = COLORS[series.color % COLORS.len()];
        // Markers differ between routers, too: not everybody sees colors, and not every printer has them.
        let outline = MARKERS[(series.color % COLORS.len() + variant) % MARKERS.len()];
        let width = 2 + (variant / DASHES.len()) as u32;
        let inside = if series.kind == Kind::Published { WHITE } else { color };
        Style { color, width, dash: DASHES[variant % DASHES.len()], outline, inside }
    }

    fn line(&self) -> ShapeStyle {
        self.color.stroke_width(self.width)
    }

    /// Makes a marker.
    fn marker<P, DB: DrawingBackend>(&self, point: P) -> Marker<P, DB> {
        let outline = self.outline.to_vec();
        EmptyElement::at(point)
            + Polygon::new(outline.clone(), self.inside.filled())
            + PathElement::new(outline, self.line())
    }
}

/// The outlines of markers, in pixels from their points: square, triangle, diamond, cross.
const MARKERS: [&[(i32, i32)]; 4] = [
    &[(-4, -4), (4, -4), (4, 4), (-4, 4), (-4, -4)],
    &[(0, -6), (5, 4), (-5, 4), (0, -6)],
    &[(0, -6), (6, 0), (0, 6), (-6, 0), (0, -6)],
    &[
        (-2, -6),
        (2, -6),
        (2, -2),
        (6, -2),
        (6, 2),
        (2, 2),
        (2, 6),
        (-2, 6),
        (-2, 2),
        (-6, 2),
        (-6, -2),
        (-2, -2),
        (-2, -6),
    ],
];

type Marker<P, DB> = ComposedElement<P, DB, Polygon<(i32, i32)>, PathElement<(i32, i32)>>;

/// Formats a number for the labels of an axis.
fn tick(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if !(1e-3..1e6).contains(&size) => format!("{value:.0e}"),
        size if size >= 100.0 => format!("{value:.0}"),
        _ => format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_numbers_even_for_close_values() {
        let axis = Axis::logarithmic("µs");
        assert_eq!(ends(&axis, [2725.0, 2726.0].into_iter()), (1000.0, 10000.0));
        assert_eq!(ends(&axis, [1000.0].into_iter()), (100.0, 10000.0));
        assert_eq!(ends(&Axis::linear("%"), [0.0, 0.0].into_iter()), (0.0, 1.0));
    }

    #[test]
    fn curves_of_many_routers_differ() {
        let series = |color| Series { name: String::new(), kind: Kind::Curve, color, points: Vec::new() };
        // Three curves of each router.
        let all: Vec<Series> = (0..60).map(|n| series(n / 3)).collect();
        let looks = |(one, variant)| {
            let Style { color, width, dash, .. } = Style::of(one, variant);
            (color, width, dash)
        };
        let styles: Vec<_> = all.iter().zip(variants(&all, COLORS.len())).map(looks).collect();
        let twice = styles.iter().enumerate().find(|(at, style)| styles[..*at].contains(style));
        assert_eq!(twice, None);
        assert_eq!(Style::of(&all[0], 0).color, Style::of(&all[21], 0).color);
    }

    #[test]
    fn long_names_are_shortened() {
        assert_eq!(cut("linux"), "linux");
        assert_eq!(cut(&"é".repeat(80)), "é".repeat(80));
        assert_eq!(cut(&"é".repeat(81)), format!("{}…", "é".repeat(80)));
    }
}
