//! Plots and folded sections.

use super::*;

#[test]
fn published_results_are_shown_only_where_asked_for() {
    let mut all = results(&[1e3], &["linux", "volley"], 1, "x");
    assert!(html(&all).unwrap().contains("Kosák") && markdown(&all).contains("Kosák"));
    all.campaign.published = false;
    assert!(!html(&all).unwrap().contains("Kosák") && !markdown(&all).contains("Kosák"));
}

#[test]
fn conditions_are_folded_behind_the_conclusion() {
    let page = html(&results(&[1e3], &["linux"], 1, "x")).unwrap();
    let read = html5ever::parse_document(RcDom::default(), ParseOpts::default()).one(&*page);
    let roots = Element::of(&read.document);
    let sections = roots[0].named("section");
    let folded = |at: usize| !sections[at].named("details").is_empty();
    let head = |at: usize| page.split(&format!("id=\"s{at}\">")).nth(1).unwrap().split('<').next().unwrap();
    let all: Vec<&str> = (0..sections.len()).filter(|at| folded(*at)).map(head).collect();
    assert_eq!(all, ["Conditions", "Routers", "Provenance", "Limits of tester and link, in each direction"]);
    assert!(head(0) == "Conclusion" && !folded(0));
}

/// Returns all plots of a report.
fn plots(all: &Results) -> Vec<super::super::plot::Plot> {
    let blocks = super::super::document::sections(all).into_iter().flat_map(|section| section.blocks);
    blocks
        .filter_map(|block| match block {
            super::super::document::Block::Plot(plot) => Some(plot),
            _ => None,
        })
        .collect()
}

#[test]
fn a_router_has_one_color_in_all_plots() {
    let all = results(&[1e3, 2e5, 3e4, 5.0, 12.0, 0.4, 700.0], &["linux", "volley", "mine"], 7, "x");
    let plots = plots(&all);
    let of = |name: &str| {
        let series = plots.iter().flat_map(|plot| &plot.series);
        let own = series.filter(|s| s.name.starts_with(name)).map(|s| s.color);
        own.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!([of("linux").len(), of("volley").len(), of("mine").len()], [1; 3]);
    assert!(of("linux") != of("volley") && of("volley") != of("mine"));
    // Published results share no color with a router.
    let published =
        plots.iter().flat_map(|p| &p.series).filter(|s| s.kind == super::super::plot::Kind::Published);
    assert!(published.map(|s| s.color).all(|color| color > 2));
    // The curves of a router in a plot differ in their dashes.
    let delays = plots.iter().find(|p| p.title.starts_with("Delay over load")).unwrap();
    let styles: std::collections::BTreeSet<_> =
        delays.series.iter().map(|s| s.color).zip(super::super::plot::variants(&delays.series, 7)).collect();
    assert_eq!(styles.len(), delays.series.len());
}

#[test]
fn results_limited_by_the_tester_are_marked_in_plots() {
    let mut all = results(&[1e3, 2e5, 3e4, 5.0, 12.0, 0.4, 700.0], &["linux", "volley"], 7, "x");
    let labels = |all: &Results, title: &str| {
        let plots = plots(all).into_iter().filter(|p| p.title.starts_with(title));
        plots.flat_map(|p| p.series).map(|s| s.label()).collect::<Vec<_>>().join(", ")
    };
    let titles = ["Throughput over frame size", "Loss over the offered load", "Loss over time"];
    for title in titles {
        let said = labels(&all, title);
        assert!(said.contains("linux †") && said.contains("volley †"), "{title}: {said}");
    }
    let page = html(&all).unwrap();
    assert!(page.contains("limited by the tester, the router may do more</figcaption>"));
    for m in all.cells.iter_mut().flat_map(|cell| &mut cell.measurements) {
        m.limited_by_tester = false;
    }
    titles.iter().for_each(|title| assert!(!labels(&all, title).contains('†'), "{title}"));
    // Each load has its own mark.
    assert!(!labels(&all, "Delay over load").contains('†'));
}

#[test]
fn efficiency_is_not_shown_where_other_programs_may_have_used_the_cores() {
    let mut all = results(&[1e3, 2e5, 3e4, 5.0, 12.0, 0.4, 700.0], &["linux", "volley"], 7, "x");
    let drawn = |all: &Results| {
        let plots = plots(all).into_iter().filter(|p| p.title.starts_with("Frames per processor time"));
        let names = plots.flat_map(|p| p.series).map(|s| s.name);
        names.collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(drawn(&all), ["linux", "volley"]);
    // If the machine was not idle, the kernel's efficiency is unknown, because all work on its cores is
    // charged to it. Volley is charged for its own threads only.
    all.conditions.push("The machine was not idle when the campaign began: cc".into());
    assert_eq!(drawn(&all), ["volley"]);
}
