use proptest::prelude::*;

use super::*;

const NAMES: &str = "paper,table,machine,clock_mhz,system,cores,placement,path,routes,traffic,offered_gbps,\
                     frame_bytes,median_fps,scale_up,remark";

fn one(line: &str) -> Result<Case, String> {
    let mut cases = parse(&format!("{NAMES}\n{line}\n")).map_err(|error| error.to_string())?;
    assert_eq!(cases.len(), 1);
    Ok(cases.remove(0))
}

const LINE: &str = "kosak-lencse-2025,I,E5-2620,2000,Linux,2,,ip4,,bidirectional,,64,765223,0.8641,";

#[test]
fn a_line_is_a_case() {
    let case = one(LINE).unwrap();
    assert_eq!((case.paper, case.table.as_str(), case.path), (Paper::KosakLencse2025, "I", Path::Ip4));
    assert_eq!((case.cores, case.clock_mhz, case.frame_bytes), (2, Some(2000), 64));
    assert_eq!((case.routes, case.offered_gbps, case.placement, case.remark), (None, None, None, None));
    assert_eq!(case.figures[&Metric::ScaleUp], Figure { value: 0.8641, decimals: 4 });
    assert_eq!(case.figures.len(), 2);
}

#[test]
fn faults_are_reported_with_their_line() {
    let wrong = |from: &str, to: &str| one(&LINE.replace(from, to)).unwrap_err();
    assert_eq!(
        wrong("0.8641", "0,8641").split(':').next(),
        Some("published results, line 2"),
        "a field more than names"
    );
    assert_eq!(
        wrong("0.8641", "n/a"),
        "published results, line 2: scale_up is \"n/a\", which is not a figure"
    );
    assert_eq!(
        wrong(",2000,", ",2 GHz,"),
        "published results, line 2: clock_mhz is \"2 GHz\", which is not a number"
    );
    assert!(
        wrong("kosak", "nobody").starts_with("published results, line 2: paper: unknown variant `nobody")
    );
    assert!(wrong("ip4", "").contains("path: unknown variant ``"));
    assert!(wrong(",Linux,", ",,").ends_with("system is empty"));
    assert!(wrong("765223,0.8641", ",").ends_with("the row has no figure"));
    for rate in ["NaN", "-1", "0", "inf"] {
        let line = LINE.replace("bidirectional,,", &format!("bidirectional,{rate},"));
        assert!(one(&line).unwrap_err().ends_with("offered_gbps must be a finite figure above 0"), "{rate}");
    }
}

#[test]
fn columns_are_checked() {
    let wrong = |names: &str| parse(&format!("{names}\n")).unwrap_err().to_string();
    assert_eq!(
        wrong(&NAMES.replace("scale_up", "speed")),
        "published results, line 1: unknown column \"speed\""
    );
    assert_eq!(wrong(&NAMES.replace(",path", "")), "published results, line 1: column path is missing");
    assert_eq!(wrong(&NAMES.replace("scale_up", "path")), "published results, line 1: duplicate column path");
    assert!(parse("").is_err());
}

#[test]
fn figures_are_read_as_printed() {
    assert_eq!(Figure::read("0.20"), Some(Figure { value: 0.2, decimals: 2 }));
    assert_eq!(Figure::read("442782").unwrap().to_string(), "442782");
    assert_eq!(Figure::read(&"9".repeat(400)), None);
    for text in ["", ".", "1.", ".5", "1e3", "-1", "+1", "NaN", "inf", "1,000", "1.2.3", " 1"] {
        assert_eq!(Figure::read(text), None, "{text:?}");
    }
}

proptest! {
    #[test]
    fn a_figure_is_printed_as_it_was(whole in 0u32..10_000_000, decimals in "(\\.[0-9]{1,4})?") {
        let printed = format!("{whole}{decimals}");
        prop_assert_eq!(Figure::read(&printed).unwrap().to_string(), printed);
    }

    #[test]
    fn any_text_is_parsed_without_a_panic(text in "[a-z0-9,\\n\".]{0,200}") {
        let _ = parse(&text);
        let _ = parse(&format!("{NAMES}\n{text}"));
    }
}

#[test]
fn the_file_contains_every_table_completely() {
    let cases = cases().unwrap();
    let of = |paper| cases.iter().filter(|case| case.paper == paper).collect::<Vec<_>>();
    let figures = |cases: &[&Case]| cases.iter().map(|case| case.figures.len()).sum::<usize>();
    let counted = [Paper::KosakLencse2025, Paper::Okelmann2019, Paper::Slavik2025, Paper::Slavik2025Draft]
        .map(|paper| (of(paper).len(), figures(&of(paper))));
    // Kosák and Lencse: 54 columns with 6 figures each, 32 of them with scale-up and 24 with the ratio to half the cores. Okelmann: 8
    // scenarios at 3 clocks, and 14 lines. Slavík: 5 sizes, 4 configurations, 12 tables.
    assert_eq!(counted, [(54, 54 * 6 + 32 + 24), (38, 76), (240, 960), (20, 60)]);
}

#[test]
fn clocks_per_packet_use_the_machines_clock() {
    let cases = cases().unwrap();
    let find = |table: &str, system: &str, mhz, path| {
        let same =
            |c: &&Case| (c.table.as_str(), c.system.as_str(), c.clock_mhz) == (table, system, Some(mhz));
        cases.iter().filter(same).find(|c| c.path == path && c.cores == 1).unwrap()
    };
    let clocks = |case: &Case| case.clocks_per_packet().unwrap().round();
    assert_eq!(clocks(find("IX", "VPP", 3200, Path::Ip4)), 230.0);
    assert_eq!(clocks(find("6.1", "VPP 18.10", 3200, Path::L2Xconnect)), 242.0);
    assert_eq!(find("I", "Linux", 2000, Path::Ip4).forwarded_pps(), Some(885_564.0));
    assert_eq!(find("2.3", "VPP 25.02", 2600, Path::Ip4).clocks_per_packet(), None);
}
