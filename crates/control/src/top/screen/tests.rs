use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyModifiers;
use serde_json::json;

use super::*;

/// Returns a sample in which each interface received `packets`, a node was given half of them, and another node dropped a quarter.
fn sample(at: Instant, packets: u64) -> Sample {
    let node = |name: &str, state: &str, packets: u64| {
        let did = json!({ "calls": packets / 10, "packets": packets, "timed_packets": packets, "clocks": 30 * packets });
        json!({ "name": name, "state": state, "since_start": did })
    };
    let spent = json!({
        "turns": packets / 5, "busy_seconds": packets as f64 / 1e6, "idle_seconds": packets as f64 / 1e6, "sleeps": 0
    });
    let interface = |name: &str, up: bool, rate: f64| {
        json!({
            "name": name, "admin_up": up, "link_up": true, "absent": false,
            "counters": [{ "name": "rx packets", "count": packets }],
            "rates": {
                "rx_packets_per_second": rate, "rx_bits_per_second": 480.0 * rate, "tx_packets_per_second": 0.0,
                "tx_bits_per_second": 0.0, "drops_per_second": 0.0
            }
        })
    };
    let threads = json!([{
        "thread": "volley_wk_0", "since_start": spent,
        "nodes": [node("pg-input", "polling", packets), node("ip4-input", "active", packets / 2)]
    }]);
    let drops = json!([{
        "count": packets / 4, "node": "ip4-lookup", "name": "no-route", "reason": "no route", "severity": "warn", "dropped": true
    }]);
    Sample {
        at,
        interfaces: serde_json::from_value(json!([
            interface("host-b", true, 10.0),
            interface("host-a", true, 2_500_000.0),
            interface("host-c", false, 0.0)
        ]))
        .unwrap(),
        threads: serde_json::from_value(threads).unwrap(),
        drops: serde_json::from_value(drops).unwrap(),
    }
}

/// Returns the screen after two samples a second apart, with a million packets in between.
fn screen() -> Screen {
    let (mut screen, start) = (Screen::new("/run/cli.sock"), Instant::now());
    screen.take(sample(start, 1_000_000));
    screen.take(sample(start + Duration::from_secs(1), 2_000_000));
    screen
}

/// Returns the visible lines.
fn lines(screen: &mut Screen) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(140, 12)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let line = |row: &[ratatui::buffer::Cell]| row.iter().map(|cell| cell.symbol()).collect::<String>();
    buffer.content.chunks(140).map(|row| line(row).trim_end().to_string()).collect()
}

fn press(screen: &mut Screen, code: KeyCode) -> Option<Wish> {
    screen.key(KeyEvent::new(code, KeyModifiers::NONE))
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn interfaces_are_sorted_by_receive_rate() {
    let mut screen = screen();
    let seen = lines(&mut screen);
    assert!(seen[0].starts_with("volley top  /run/cli.sock  rx 2.50M pps 1.20Gbit/s"), "{}", seen[0]);
    assert!(seen[0].ends_with("busy 50.0 %"), "{}", seen[0]);
    assert_eq!(words(&seen[3])[..4], ["host-a", "up", "2.50M", "1.20G"]);
    assert_eq!(words(&seen[4])[..4], ["host-b", "up", "10", "4800"]);
    assert_eq!(words(&seen[5])[..3], ["host-c", "down", "0"]);
    assert_eq!(words(&seen[3])[7], "2M");
    // Reverses the order, then sorts by name.
    press(&mut screen, KeyCode::Char('r'));
    assert!(lines(&mut screen)[3].starts_with("host-c"));
    for _ in 0..8 {
        press(&mut screen, KeyCode::Char('s'));
    }
    assert!(lines(&mut screen)[3].starts_with("host-a"));
    press(&mut screen, KeyCode::Char('S'));
    press(&mut screen, KeyCode::Char('s'));
    assert!(lines(&mut screen)[3].starts_with("host-a") && lines(&mut screen)[2].starts_with("Interface▲"));
}

#[test]
fn rates_are_between_two_samples() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Char('2'));
    assert_eq!(words(&lines(&mut screen)[3]), ["volley_wk_0", "50.0", "%", "1M", "5", "200k", "0"]);
    press(&mut screen, KeyCode::Char('3'));
    let seen = lines(&mut screen);
    assert_eq!(words(&seen[3]), ["pg-input", "input", "1M", "30", "10", "30M", "2M"]);
    assert_eq!(words(&seen[4]), ["ip4-input", "500k", "30", "10", "15M", "1M"]);
    press(&mut screen, KeyCode::Tab);
    assert_eq!(words(&lines(&mut screen)[3])[..5], ["ip4-lookup", "no-route", "warn", "250k", "500k"]);
    // A cleared counter has no rate.
    let now = Instant::now() + Duration::from_secs(5);
    screen.take(sample(now, 100));
    assert_eq!(words(&lines(&mut screen)[3])[3..5], ["0", "25"]);
}

#[test]
fn selected_row_stays_selected_and_has_details() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Down);
    assert_eq!(press(&mut screen, KeyCode::Enter), Some(Wish::Detail("show interface host-b".into())));
    press(&mut screen, KeyCode::Char('r'));
    assert_eq!(press(&mut screen, KeyCode::Enter), Some(Wish::Detail("show interface host-b".into())));
    press(&mut screen, KeyCode::End);
    assert_eq!(press(&mut screen, KeyCode::Enter), Some(Wish::Detail("show interface host-a".into())));
    screen.detail("show interface host-a", "first\nsecond\tone\n");
    assert!(lines(&mut screen)[3].contains("first") && lines(&mut screen)[4].contains("second    one"));
    press(&mut screen, KeyCode::Down);
    assert!(lines(&mut screen)[3].contains("second"));
    assert_eq!(press(&mut screen, KeyCode::Esc), None);
    assert_eq!(press(&mut screen, KeyCode::Esc), Some(Wish::Leave));
}

#[test]
fn filter_keeps_matching_rows() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Char('/'));
    "T-Bx".chars().for_each(|letter| drop(press(&mut screen, KeyCode::Char(letter))));
    assert!(lines(&mut screen)[11].starts_with("filter: T-Bx_"));
    assert_eq!(press(&mut screen, KeyCode::Backspace), None);
    press(&mut screen, KeyCode::Enter);
    let seen = lines(&mut screen);
    assert!(seen[3].starts_with("host-b") && seen[4].is_empty(), "{seen:?}");
    // Without rows, nothing is selected.
    press(&mut screen, KeyCode::Char('/'));
    press(&mut screen, KeyCode::Char('z'));
    press(&mut screen, KeyCode::Enter);
    assert_eq!(press(&mut screen, KeyCode::Enter), None);
    press(&mut screen, KeyCode::Char('/'));
    press(&mut screen, KeyCode::Esc);
    assert!(lines(&mut screen)[5].starts_with("host-c"));
}

#[test]
fn numbers_are_short() {
    for (n, text) in [
        (0.0, "0"),
        (0.25, "0.25"),
        (7.0, "7"),
        (9_999.0, "9999"),
        (12_345.0, "12.3k"),
        (999_400.0, "999k"),
        (1_000_000.0, "1M"),
        (14_880_952.0, "14.9M"),
        (1.2e9, "1.20G"),
        (3.5e13, "35T"),
    ] {
        assert_eq!(short(n), text);
    }
}
