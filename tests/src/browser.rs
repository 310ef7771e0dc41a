//! Checks that a page is fully visible in a browser (headless Chromium).

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The medium that shows a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// A window.
    Screen,
    /// A printed sheet, by the page's own print rules.
    Paper,
}

/// The visible content of a page.
#[derive(Debug)]
pub struct Seen {
    /// Number of drawn plots.
    pub plots: u64,
    /// Number of tables.
    pub tables: u64,
    /// Elements that are not fully visible, in words.
    pub faults: Vec<String>,
}

/// A script that examines the page after its layout and adds its findings as an element.
const LOOK: &str = r#"<script>
const faults = [], all = (of, what) => [...of.querySelectorAll(what)];
const wide = (what, e) => e.scrollWidth > e.clientWidth && faults.push(`${what} is ${e.scrollWidth} wide, but only ${e.clientWidth} are visible`);
all(document, ".wide").forEach(e => wide(e.querySelector("caption").textContent, e));
wide("the page", document.documentElement);
all(document, "svg").forEach(svg => {
    const box = svg.getBoundingClientRect();
    if (box.width < 200 || box.height < 100) faults.push(`a plot of ${box.width} by ${box.height}`);
    all(svg, "text").forEach(text => {
        const own = text.getBoundingClientRect();
        const inside = own.left > box.left - 1 && own.right < box.right + 1 && own.top > box.top - 1 && own.bottom < box.bottom + 1;
        if (!inside) faults.push(`"${text.textContent}" extends beyond its plot`);
    });
});
const said = document.createElement("pre");
const seen = { plots: all(document, "figure svg").length, tables: all(document, "table").length, faults };
// In ASCII, and without what HTML would escape.
const code = c => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0");
said.id = "seen";
said.textContent = JSON.stringify(seen).replace(/[&<>\u0080-\uffff]/g, code);
document.body.append(said);
</script></body>"#;

impl Seen {
    /// Shows a page in a window or on a sheet of this width in pixels. An A4 print is 718 pixels wide within its margins.
    ///
    /// # Panics
    /// When there is no browser, or it does not show the page.
    pub fn of(page: &Path, media: Media, width: u32) -> Seen {
        let mut text = std::fs::read_to_string(page).expect("a page");
        if media == Media::Paper {
            text = text.replace("@media print", "@media all");
        }
        let looked = page.with_extension("looked.html");
        std::fs::write(&looked, text.replace("</body>", LOOK)).expect("a page");
        let shown = chromium(&looked, &[&format!("--window-size={width},1000"), "--dump-dom"]);
        let said = shown.split("<pre id=\"seen\">").nth(1).and_then(|rest| rest.split("</pre>").next());
        let said = said.unwrap_or_else(|| panic!("the page was not examined: {shown}"));
        let seen: Value = serde_json::from_str(said).unwrap_or_else(|e| panic!("{e}: {said}"));
        let count = |what: &str| seen[what].as_u64().expect("a number");
        let faults = seen["faults"].as_array().expect("a list").iter().map(ToString::to_string).collect();
        Seen { plots: count("plots"), tables: count("tables"), faults }
    }
}

/// Returns the number of sheets in a print of a page.
///
/// # Panics
/// When it cannot be printed.
pub fn paper(page: &Path) -> usize {
    let pdf = page.with_extension("pdf");
    chromium(page, &["--no-pdf-header-footer", &format!("--print-to-pdf={}", pdf.display())]);
    let pdf = std::fs::read(&pdf).expect("a PDF file");
    String::from_utf8_lossy(&pdf).matches("/Type /Page\n").count()
}

/// Runs the browser with a page and without network services, and returns its output.
fn chromium(page: &Path, words: &[&str]) -> String {
    let profile = page.with_extension("profile");
    let out = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(words)
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("chromium runs (scripts/setup.sh)");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("UTF-8")
}
