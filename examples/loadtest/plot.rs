//! Requests offered and admitted, tenth of a second by tenth of a second, as an SVG picture: a panel for each limiter,
//! above one another on the same axes.

use std::fmt;

use crate::{
    figures::{Figures, SLOT},
    gate::{self, Kind, QUOTA},
    schedule::Load,
};

pub(crate) struct Chart {
    pub(crate) subtitle: String,
    pub(crate) load: Load,
    pub(crate) panels: Vec<Panel>,
}

/// One limiter's run, counted per `SLOT`.
pub(crate) struct Panel {
    /// `None`: the target's own.
    pub(crate) limiter: Option<Kind>,
    pub(crate) offered: Vec<usize>,
    pub(crate) admitted: Vec<usize>,
    pub(crate) figures: Figures,
}

const WIDTH: f64 = 1080.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 1048.0;
const FIRST_PANEL: f64 = 158.0;
const PANEL_HEIGHT: f64 = 200.0;
const PANEL_STEP: f64 = 268.0;
/// Below the last panel: its numbers and the name of the axis.
const FOOT: f64 = 64.0;

const INK: &str = "#1f2933";
const FAINT_INK: &str = "#5f6c7b";
const GRID: &str = "#e4e8ed";
const OFFERED: &str = "#c3ccd6";

fn colour(limiter: Option<Kind>) -> &'static str {
    match limiter {
        Some(Kind::Legacy) => "#d1542a",
        Some(Kind::Tollgate) => "#12728c",
        None => "#5b6b3a",
    }
}

fn describe(limiter: Option<Kind>) -> &'static str {
    match limiter {
        Some(Kind::Legacy) => "legacy: a counter that starts anew each second",
        Some(Kind::Tollgate) => "tollgate: a bucket that refills all the time",
        None => "the target, by the time of its answers",
    }
}

impl fmt::Display for Chart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last_panel = panel_top(self.panels.len().saturating_sub(1));
        let height = last_panel + PANEL_HEIGHT + FOOT;
        writeln!(
            f,
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" font-family="Inter, 'Helvetica Neue', 'Segoe UI', 'DejaVu Sans', Arial, sans-serif" font-size="13">"#
        )?;
        writeln!(f, r##"<rect width="100%" height="100%" fill="#ffffff"/>"##)?;
        self.head(f)?;
        let axes = self.axes();
        for (index, panel) in self.panels.iter().enumerate() {
            axes.panel(f, panel, panel_top(index))?;
        }
        writeln!(
            f,
            r#"<text x="{}" y="{}" text-anchor="middle" fill="{FAINT_INK}">seconds since the start</text>"#,
            f64::midpoint(LEFT, RIGHT),
            height - 18.0
        )?;
        writeln!(f, "</svg>")
    }
}

fn panel_top(index: usize) -> f64 {
    FIRST_PANEL + PANEL_STEP * index as f64
}

impl Chart {
    /// Title, subtitle, legend.
    fn head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subtitle = escape(&self.subtitle);
        writeln!(f, r#"<text x="{LEFT}" y="40" font-size="21" font-weight="600" fill="{INK}">Requests offered and admitted</text>"#)?;
        writeln!(f, r#"<text x="{LEFT}" y="63" fill="{FAINT_INK}">{subtitle}</text>"#)?;
        let mut x = LEFT;
        swatch(f, &mut x, OFFERED, "offered")?;
        for panel in &self.panels {
            swatch(f, &mut x, colour(panel.limiter), &format!("admitted by {}", gate::name(panel.limiter)))?;
        }
        writeln!(f, r#"<path d="M{x} 89h24" stroke="{INK}" stroke-width="1.5" stroke-dasharray="6 4"/>"#)?;
        writeln!(f, r#"<text x="{}" y="94" fill="{INK}">{}</text>"#, x + 32.0, self.quota_label())
    }

    fn quota_label(&self) -> String {
        let per_slot = quota_per_slot(self.load);
        if self.panels.iter().any(|panel| panel.limiter.is_none()) {
            return format!("for comparison: {QUOTA} a second for each tenant, {per_slot} per 100 ms");
        }
        match self.load.clients {
            1 => format!("the quota: {QUOTA} a second, {per_slot} per 100 ms"),
            clients => format!("the quota: {QUOTA} a second for each of {clients} tenants, {per_slot} per 100 ms"),
        }
    }

    fn axes(&self) -> Axes {
        let counts = self.panels.iter().flat_map(|panel| panel.offered.iter().chain(&panel.admitted));
        let most = counts.max().copied().unwrap_or(0) as f64;
        let quota = quota_per_slot(self.load);
        let count_step = round_step(most.max(quota) / 6.0);
        Axes {
            seconds: self.load.seconds.into(),
            second_step: round_step(f64::from(self.load.seconds) / 12.0),
            count: ((most.max(quota) / count_step).floor() + 1.0) * count_step,
            count_step,
            quota,
        }
    }
}

fn quota_per_slot(load: Load) -> f64 {
    f64::from(QUOTA) * f64::from(load.clients) * SLOT.as_secs_f64()
}

fn swatch(f: &mut fmt::Formatter<'_>, x: &mut f64, colour: &str, label: &str) -> fmt::Result {
    /// Wide enough for a letter of this size, on average.
    const LETTER: f64 = 7.2;
    writeln!(f, r#"<rect x="{x}" y="82" width="14" height="14" rx="2" fill="{colour}"/>"#)?;
    writeln!(f, r#"<text x="{}" y="94" fill="{INK}">{label}</text>"#, *x + 21.0)?;
    *x += 21.0 + LETTER * label.len() as f64 + 24.0;
    Ok(())
}

/// What both panels share: how far the axes go, and how far apart their lines are.
struct Axes {
    seconds: f64,
    second_step: f64,
    count: f64,
    count_step: f64,
    quota: f64,
}

impl Axes {
    fn x(&self, seconds: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * (seconds / self.seconds).min(1.0)
    }

    /// How far above a panel's floor `count` is.
    fn rise(&self, count: f64) -> f64 {
        PANEL_HEIGHT * count / self.count
    }

    fn panel(&self, f: &mut fmt::Formatter<'_>, panel: &Panel, top: f64) -> fmt::Result {
        let floor = top + PANEL_HEIGHT;
        let colour = colour(panel.limiter);
        writeln!(
            f,
            r#"<text x="{LEFT}" y="{}" font-size="15" font-weight="600" fill="{colour}">{}</text>"#,
            top - 14.0,
            describe(panel.limiter)
        )?;
        writeln!(
            f,
            r#"<text x="{RIGHT}" y="{}" text-anchor="end" fill="{INK}">worst second: {} admitted, largest burst: {:.0}</text>"#,
            top - 14.0,
            panel.figures.worst_second,
            panel.figures.largest_burst
        )?;
        self.grid(f, floor)?;
        self.steps(f, &panel.offered, floor, OFFERED)?;
        self.steps(f, &panel.admitted, floor, colour)?;
        let quota = floor - self.rise(self.quota);
        // Light beneath the dashes, so that they stand out from a dark area too.
        writeln!(f, r##"<path d="M{LEFT} {quota:.1}H{RIGHT}" stroke="#ffffff" stroke-width="2.5" stroke-opacity="0.75"/>"##)?;
        writeln!(f, r#"<path d="M{LEFT} {quota:.1}H{RIGHT}" stroke="{INK}" stroke-width="1.5" stroke-dasharray="6 4"/>"#)?;
        writeln!(f, r#"<path d="M{LEFT} {floor}H{RIGHT}" stroke="{FAINT_INK}"/>"#)
    }

    fn grid(&self, f: &mut fmt::Formatter<'_>, floor: f64) -> fmt::Result {
        let top = floor - PANEL_HEIGHT;
        for seconds in ticks(self.seconds, self.second_step) {
            let x = self.x(seconds);
            writeln!(f, r#"<path d="M{x:.1} {top}V{}" stroke="{GRID}"/>"#, floor + 5.0)?;
            writeln!(f, r#"<text x="{x:.1}" y="{}" text-anchor="middle" fill="{FAINT_INK}">{seconds}</text>"#, floor + 20.0)?;
        }
        for count in ticks(self.count, self.count_step) {
            let y = floor - self.rise(count);
            writeln!(f, r#"<path d="M{LEFT} {y:.1}H{RIGHT}" stroke="{GRID}"/>"#)?;
            writeln!(f, r#"<text x="{}" y="{:.1}" text-anchor="end" fill="{FAINT_INK}">{count}</text>"#, LEFT - 9.0, y + 4.5)?;
        }
        let middle = f64::midpoint(top, floor);
        writeln!(
            f,
            r#"<text transform="translate(30 {middle}) rotate(-90)" text-anchor="middle" fill="{FAINT_INK}">requests per 100 ms</text>"#
        )
    }

    /// An area as high as each of `counts` for as wide as its slot.
    fn steps(&self, f: &mut fmt::Formatter<'_>, counts: &[usize], floor: f64, colour: &str) -> fmt::Result {
        write!(f, r#"<path fill="{colour}" d="M{LEFT} {floor}"#)?;
        for (index, count) in counts.iter().enumerate() {
            let y = floor - self.rise(*count as f64);
            let end = self.x((index + 1) as f64 * SLOT.as_secs_f64());
            write!(f, "V{y:.1}H{end:.1}")?;
        }
        writeln!(f, r#"V{floor}Z"/>"#)
    }
}

/// The smallest of 1, 2, 5, 10, 20, 50, ... that is no less than `least`.
fn round_step(least: f64) -> f64 {
    let decade = 10_f64.powf(least.max(1.0).log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|lead| lead * decade).find(|step| *step >= least).unwrap_or(10.0 * decade)
}

/// 0, `step`, 2 `step`, ... up to `end`.
fn ticks(end: f64, step: f64) -> impl Iterator<Item = f64> {
    (0_u32..).map(move |index| f64::from(index) * step).take_while(move |tick| *tick <= end)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Pattern;

    fn chart(subtitle: &str, panels: Vec<Panel>) -> Chart {
        let load = Load { rps: 120, seconds: 10, clients: 1, pattern: Pattern::Steady };
        Chart { subtitle: subtitle.to_owned(), load, panels }
    }

    fn panel(limiter: Kind) -> Panel {
        Panel { limiter: Some(limiter), offered: vec![12; 100], admitted: vec![10; 101], figures: Figures::of(&[], &[], QUOTA) }
    }

    /// Elements closed in the order they were opened, attributes quoted, no bare `<` or `&`.
    fn check_well_formed(svg: &str) -> Result<(), String> {
        let mut open = Vec::new();
        let mut rest = svg;
        while let Some((text, after)) = rest.split_once('<') {
            check_text(text)?;
            let (tag, after) = after.split_once('>').ok_or("a tag without an end")?;
            rest = after;
            if let Some(name) = tag.strip_prefix('/') {
                if open.pop() != Some(name) {
                    return Err(format!("</{name}> closes something else"));
                }
                continue;
            }
            let (name, attributes) = tag.split_once(' ').ok_or(format!("<{tag}> without attributes"))?;
            check_attributes(attributes.strip_suffix('/').unwrap_or(attributes))?;
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        check_text(rest)?;
        if open.is_empty() { Ok(()) } else { Err(format!("{open:?} left open")) }
    }

    fn check_text(text: &str) -> Result<(), String> {
        let bare = |part: &&str| !["amp;", "lt;", "gt;"].iter().any(|entity| part.starts_with(entity));
        match text.split('&').skip(1).find(bare) {
            Some(part) => Err(format!("a bare & before {part}")),
            None => Ok(()),
        }
    }

    fn check_attributes(attributes: &str) -> Result<(), String> {
        let parts: Vec<&str> = attributes.split('"').collect();
        let (values, end) = parts.as_chunks::<2>();
        let named = |name: &str| {
            let name = name.trim_start().strip_suffix('=');
            name.is_some_and(|name| !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || letter == '-'))
        };
        if values.iter().all(|[name, _]| named(name)) && matches!(end, [end] if end.trim().is_empty()) {
            Ok(())
        } else {
            Err(format!("attributes {attributes}"))
        }
    }

    #[test]
    fn the_picture_is_well_formed() -> Result<(), String> {
        for panels in [
            vec![],
            vec![panel(Kind::Tollgate)],
            vec![panel(Kind::Legacy), panel(Kind::Tollgate)],
            vec![Panel { limiter: None, ..panel(Kind::Legacy) }],
        ] {
            check_well_formed(&chart("tenant a: steady", panels).to_string())?;
        }
        Ok(())
    }

    #[test]
    fn a_tenants_name_cannot_break_out() -> Result<(), String> {
        let svg = chart("tenant </text>&<b>: steady", vec![panel(Kind::Legacy)]).to_string();
        assert!(svg.contains("tenant &lt;/text&gt;&amp;&lt;b&gt;: steady"));
        check_well_formed(&svg)
    }

    #[test]
    fn what_is_not_well_formed_is_noticed() {
        for broken in ["<a b=\"1\">", "<a b=\"1\"></c>", "<a b=\"1\"/>&", "<a b=1/>", "<a b=\"1/>", "<a b=\"1\"", "<a \"1\"/>"] {
            assert!(check_well_formed(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_count_is_as_high_as_the_axis_says() {
        let counted = Panel { admitted: vec![7, 0, 12], ..panel(Kind::Legacy) };
        let chart = chart("", vec![counted]);
        let axes = chart.axes();
        assert_eq!((axes.count, axes.count_step, axes.second_step), (14.0, 2.0, 1.0));
        let outline = "M84 358V258.0H93.6V358.0H103.3V186.6H112.9V358Z";
        assert!(chart.to_string().contains(outline), "{chart}");
    }

    #[test]
    fn steps_are_round_numbers() {
        for (least, expected) in [(0.3, 1.0), (1.0, 1.0), (1.2, 2.0), (2.1, 5.0), (5.1, 10.0), (20.0, 20.0), (43.0, 50.0)] {
            assert!((round_step(least) - expected).abs() < 1e-9, "{least}");
        }
        assert_eq!(ticks(6.0, 2.0).collect::<Vec<_>>(), [0.0, 2.0, 4.0, 6.0]);
    }
}
