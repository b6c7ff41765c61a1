//! The style sheet: light, dark, and print.

/// Everything that looks.
pub const STYLE: &str = r#"
:root{color-scheme:light dark;--paper:#fdfdfb;--ink:#1d2226;--soft:#5d666e;--rule:#d9dcd6;--panel:#f3f4ef;
--c0:#0b6e8a;--c1:#b4531a;--c2:#4a7a2c;--c3:#7a4aa0;--c4:#a8324e;--c5:#8a6d0b;--c6:#2f5fb3;--c7:#5b5b5b;--heat:#b4531a;--good:#2f7a3c;--bad:#b3261e}
@media (prefers-color-scheme:dark){:root{--paper:#15191c;--ink:#e4e7e2;--soft:#9aa5ac;--rule:#333b40;--panel:#1d2327;
--c0:#5bc0dc;--c1:#f0a06a;--c2:#9ccb77;--c3:#c3a0e6;--c4:#f08aa0;--c5:#e0c562;--c6:#8ab4f8;--c7:#b8b8b8;--heat:#f0a06a;--good:#7fce8b;--bad:#f28b82}}
*{box-sizing:border-box}
body{margin:0 auto;padding:2rem 1.2rem 4rem;max-width:76rem;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,sans-serif}
h1{font-size:1.7rem;margin:0 0 .2rem}h2{margin:2.6rem 0 .6rem;border-bottom:1px solid var(--rule);padding-bottom:.2rem}h3{margin:1.8rem 0 .1rem}
p.answers{margin:.1rem 0 .6rem;color:var(--soft)}p.lead{color:var(--soft);margin:0 0 1rem}
.verdict{background:var(--panel);border-left:4px solid var(--c0);padding:.8rem 1.1rem;margin:1rem 0}.verdict li{margin:.25rem 0}
nav a{margin-right:1rem}a{color:var(--c0)}
table{border-collapse:collapse;width:100%;font-size:.86rem;font-variant-numeric:tabular-nums}
th,td{padding:.22rem .5rem;border-bottom:1px solid var(--rule);text-align:right;vertical-align:top}th:first-child,td:first-child{text-align:left}td.text,th.text{text-align:left}td:not(.text),td.term{white-space:nowrap}
details{margin:.3rem 0 1rem}summary{cursor:pointer;color:var(--soft)}.wide{overflow-x:auto}
figure.chart{margin:.4rem 0}figure.chart,.verdict,p{max-width:60rem}figure.chart svg{width:100%;height:auto;display:block}figcaption{font-size:.86rem}
.grid{stroke:var(--rule);stroke-width:1}.axis{stroke:var(--soft);stroke-width:1}.tick,.name,.label{fill:var(--soft);font:12px system-ui,sans-serif}
.line{fill:none;stroke-width:2}.dot{stroke:none}.band{stroke:none;fill-opacity:.14}.bound{fill:none;stroke:var(--soft);stroke-width:1.5;stroke-dasharray:6 4}.mark{stroke:var(--soft);stroke-dasharray:2 3}
.line.c0{stroke:var(--c0)}.line.c1{stroke:var(--c1)}.line.c2{stroke:var(--c2)}.line.c3{stroke:var(--c3)}.line.c4{stroke:var(--c4)}.line.c5{stroke:var(--c5)}.line.c6{stroke:var(--c6)}.line.c7{stroke:var(--c7)}
.dot.c0,.band.c0{fill:var(--c0)}.dot.c1,.band.c1{fill:var(--c1)}.dot.c2,.band.c2{fill:var(--c2)}.dot.c3,.band.c3{fill:var(--c3)}.dot.c4,.band.c4{fill:var(--c4)}.dot.c5,.band.c5{fill:var(--c5)}.dot.c6,.band.c6{fill:var(--c6)}.dot.c7,.band.c7{fill:var(--c7)}
.reference{fill:var(--paper);stroke-width:2}.reference line{stroke-dasharray:6 4}.range{fill-opacity:.16;stroke-width:1}.reference.c0{stroke:var(--c0)}.range.c0{fill:var(--c0);stroke:var(--c0)}.reference.c1{stroke:var(--c1)}.range.c1{fill:var(--c1);stroke:var(--c1)}.reference.c2{stroke:var(--c2)}.range.c2{fill:var(--c2);stroke:var(--c2)}.reference.c3{stroke:var(--c3)}.range.c3{fill:var(--c3);stroke:var(--c3)}.reference.c4{stroke:var(--c4)}.range.c4{fill:var(--c4);stroke:var(--c4)}.reference.c5{stroke:var(--c5)}.range.c5{fill:var(--c5);stroke:var(--c5)}.reference.c6{stroke:var(--c6)}.range.c6{fill:var(--c6);stroke:var(--c6)}.reference.c7{stroke:var(--c7)}.range.c7{fill:var(--c7);stroke:var(--c7)}
.key{white-space:nowrap;margin-right:.9rem}.key::before{content:"";display:inline-block;width:1.1em;height:.28em;margin-right:.4em;vertical-align:middle;background:currentColor}
.key.c0{color:var(--c0)}.key.c1{color:var(--c1)}.key.c2{color:var(--c2)}.key.c3{color:var(--c3)}.key.c4{color:var(--c4)}.key.c5{color:var(--c5)}.key.c6{color:var(--c6)}.key.c7{color:var(--c7)}.key.bound{color:var(--soft);stroke:none}
.note{color:var(--soft)}.cell{fill:var(--heat)}.figure{fill:var(--ink);font:12px system-ui,sans-serif}.interval{stroke-width:3}.interval.same{stroke:var(--soft)}.ratio.same{fill:var(--soft)}.interval.worse{stroke:var(--bad)}.ratio.worse{fill:var(--bad)}.interval.improved{stroke:var(--good)}.ratio.improved{fill:var(--good)}
.warning{color:var(--bad)}code{font-size:.9em;overflow-wrap:anywhere}
@media print{:root{--paper:#fff;--ink:#000;--soft:#444;--rule:#bbb;--panel:#f4f4f4}body{max-width:none;padding:0;font-size:11pt}h3,figure{break-after:avoid}figure,tr{break-inside:avoid}details{display:block}details>*{display:block}nav{display:none}}
"#;
