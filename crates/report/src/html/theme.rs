//! The style sheet: light, dark, narrow, and print. Colours represent runs, in this order,
//! throughout the page.

/// The style sheet.
pub const STYLE: &str = r#"
:root{color-scheme:light dark;--paper:#fbfbf8;--card:#fff;--ink:#191d20;--soft:#5b646b;--rule:#dcdfd9;--panel:#f1f2ed;
--c0:#0a6a87;--c1:#b8500f;--c2:#5d3fa0;--c3:#3f7a1f;--c4:#b02a55;--c5:#8a6a00;--c6:#2c5cb8;--c7:#5a5a5a;--heat:#b8500f;--good:#23703a;--bad:#b3261e;--doubt:#6b5a00}
@media screen and (prefers-color-scheme:dark){:root{--paper:#121619;--card:#191e22;--ink:#e6e9e4;--soft:#9ba6ad;--rule:#323a40;--panel:#1d2327;
--c0:#58c4e2;--c1:#f39b5f;--c2:#b7a1f2;--c3:#97cc6e;--c4:#f48bac;--c5:#e2c75c;--c6:#8db6fb;--c7:#bcbcbc;--heat:#f39b5f;--good:#7dd190;--bad:#f58d84;--doubt:#e2c75c}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;position:relative;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{margin:0 auto;padding:1.6rem 1.6rem 4rem;max-width:86rem;overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.25;margin:0 0 .5rem;letter-spacing:-.01em;text-wrap:balance}
h2{font-size:1.3rem;margin:2.4rem 0 .4rem;letter-spacing:-.01em}h3{font-size:1rem;margin:1.6rem 0 .1rem;overflow-wrap:anywhere}
p{max-width:62rem;margin:.4rem 0}a{color:var(--c0)}.note,.asked{color:var(--soft);font-size:.86rem}code{font-size:.88em;overflow-wrap:anywhere}
ul.runs,ul.answers,ul.sentences{list-style:none;margin:.3rem 0;padding:0}ul.runs{font-size:.86rem;color:var(--soft)}
.key{font-weight:600;margin-right:.35rem}.key::before{content:"";display:inline-block;width:.72em;height:.72em;border-radius:50%;margin-right:.4em;background:currentColor}
.tiles{display:grid;grid-template-columns:repeat(5,minmax(0,1fr));gap:.8rem;margin:1.1rem 0 .9rem}
.tile{background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:.8rem .9rem .6rem;min-width:0}
.tile h2{font-size:.86rem;font-weight:600;margin:0;display:flex;justify-content:space-between;align-items:center;letter-spacing:0}
.tile p{margin:0}.tile .value{font-size:1.9rem;font-weight:650;line-height:1.25;letter-spacing:-.02em;font-variant-numeric:tabular-nums}
.tile .of{font-size:.82rem}.tile .spread,.tile .share{font-size:.76rem;color:var(--soft);margin-top:.25rem;line-height:1.35}
.word{white-space:nowrap;flex:none;font-size:.74rem;font-weight:650;padding:.08rem .5rem;border-radius:1rem;border:1px solid currentColor}
.word.strong{color:var(--good)}.word.fair{color:var(--soft)}.word.weak{color:var(--bad)}.word.unsure{color:var(--doubt);border-style:dashed}
.meter{height:5px;border-radius:3px;background:var(--rule);margin-top:.55rem;overflow:hidden}.meter i{display:block;height:100%;background:var(--c0)}
.strip{display:block;width:100%;height:auto;margin-top:.45rem}.published{fill:var(--card);stroke:var(--soft);stroke-width:1.4}.subject{stroke:var(--card);stroke-width:2}
.standing{margin:0}.standing summary{font-size:.78rem}.standing table{font-size:.76rem}.standing td{padding:.1rem .2rem}.own td{font-weight:650;color:var(--c0)}
ul.sentences{background:var(--panel);border-radius:8px;padding:.7rem 1rem;max-width:none}ul.sentences li{margin:.18rem 0}.sentences b{margin-right:.2rem}
.sentences .strong b{color:var(--good)}.sentences .weak b{color:var(--bad)}.sentences .unsure b{color:var(--doubt)}
nav{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;font-size:.86rem;margin:.9rem 0}
.question{border-top:1px solid var(--rule);margin-top:2rem;padding-top:.2rem}.question h2{margin-top:1rem}ul.answers li{margin:.1rem 0}
.panels{display:grid;grid-template-columns:repeat(3,minmax(0,1fr));gap:.6rem 1.2rem;margin:.7rem 0}.panels.n1{grid-template-columns:minmax(0,44rem)}.panels.n2{grid-template-columns:repeat(2,minmax(0,36rem))}.panels.n4,.panels.n7{grid-template-columns:repeat(4,minmax(0,1fr))}
.beside{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:0 2rem;align-items:start}.beside>h2,.beside:has(.figures[open])>*{grid-column:1/-1}.beside .panels{margin-top:0}
.benchmarks{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:0 2rem;grid-auto-flow:dense;align-items:start}.benchmark{grid-column:1/-1;min-width:0}.benchmark.one{grid-column:auto}
.benchmark.one:has(>details[open]){grid-column:1/-1;display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:0 2rem;align-items:start}.benchmark.one>details[open]{grid-column:1/-1}
figure{margin:0}.stack p{margin:.1rem 0;font-size:.84rem}.panel{min-width:0}.panel figcaption{font-size:.84rem;font-weight:600;overflow-wrap:anywhere}.panel svg{display:block;width:100%;height:auto}
figure.chart{margin:.4rem 0;max-width:44rem}.stacks{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:.4rem 2rem;align-items:start}.stacks.mean{grid-template-columns:minmax(0,2fr) minmax(0,3fr)}.stacks td:not(.text){white-space:nowrap}figure.chart svg{width:100%;height:auto;display:block}figure.chart figcaption{font-size:.86rem}
.grid{stroke:var(--rule);stroke-width:1}.axis{stroke:var(--soft);stroke-width:1}.tick,.name,.label{fill:var(--soft);font:11.5px system-ui,sans-serif}.end{font:600 11.5px system-ui,sans-serif}.hit{fill:none;stroke:none}
.line{fill:none;stroke-width:2.2;stroke-linejoin:round}.dashed{stroke-dasharray:7 3}.dot{stroke:none}.band{stroke:none;fill-opacity:.13}.bound{fill:none;stroke-width:1.3;stroke-dasharray:5 4;opacity:.75}.mark{stroke-width:1.3;stroke-dasharray:1.5 3}.lead{fill:none;stroke-width:.7;opacity:.6}
.line.c0,.s0{stroke:var(--c0)}.line.c1,.s1{stroke:var(--c1)}.line.c2,.s2{stroke:var(--c2)}.line.c3,.s3{stroke:var(--c3)}.line.c4,.s4{stroke:var(--c4)}.line.c5,.s5{stroke:var(--c5)}.line.c6,.s6{stroke:var(--c6)}.line.c7,.s7{stroke:var(--c7)}
.dot.c0,.band.c0,.end.c0{fill:var(--c0)}.dot.c1,.band.c1,.end.c1{fill:var(--c1)}.dot.c2,.band.c2,.end.c2{fill:var(--c2)}.dot.c3,.band.c3,.end.c3{fill:var(--c3)}.dot.c4,.band.c4,.end.c4{fill:var(--c4)}.dot.c5,.band.c5,.end.c5{fill:var(--c5)}.dot.c6,.band.c6,.end.c6{fill:var(--c6)}.dot.c7,.band.c7,.end.c7{fill:var(--c7)}
.key.c0{color:var(--c0)}.key.c1{color:var(--c1)}.key.c2{color:var(--c2)}.key.c3{color:var(--c3)}.key.c4{color:var(--c4)}.key.c5{color:var(--c5)}.key.c6{color:var(--c6)}.key.c7{color:var(--c7)}
.reference{fill:var(--paper);stroke-width:2}.reference line{stroke-dasharray:6 4}.range{fill-opacity:.16;stroke-width:1}.reference.c0{stroke:var(--c0)}.range.c0{fill:var(--c0);stroke:var(--c0)}.reference.c1{stroke:var(--c1)}.range.c1{fill:var(--c1);stroke:var(--c1)}.reference.c2{stroke:var(--c2)}.range.c2{fill:var(--c2);stroke:var(--c2)}.reference.c3{stroke:var(--c3)}.range.c3{fill:var(--c3);stroke:var(--c3)}.reference.c4{stroke:var(--c4)}.range.c4{fill:var(--c4);stroke:var(--c4)}.reference.c5{stroke:var(--c5)}.range.c5{fill:var(--c5);stroke:var(--c5)}.reference.c6{stroke:var(--c6)}.range.c6{fill:var(--c6);stroke:var(--c6)}.reference.c7{stroke:var(--c7)}.range.c7{fill:var(--c7);stroke:var(--c7)}
figure.chart .mark{stroke:var(--soft)}.cell{fill:var(--heat)}.figure{fill:var(--ink);font:12px system-ui,sans-serif}
.interval{stroke-width:3}.interval.same{stroke:var(--soft)}.ratio.same{fill:var(--soft)}.interval.worse{stroke:var(--bad)}.ratio.worse{fill:var(--bad)}.interval.improved{stroke:var(--good)}.ratio.improved{fill:var(--good)}
.ratios td.drawn{width:16rem;padding-block:0;vertical-align:middle}.ratios svg{display:block;width:100%}
td,th{overflow-wrap:normal}.figures th{overflow-wrap:anywhere}table{border-collapse:collapse;width:100%;font-size:.82rem;font-variant-numeric:tabular-nums}
th,td{padding:.18rem .4rem;border-bottom:1px solid var(--rule);text-align:right;vertical-align:top}th{font-weight:600;vertical-align:bottom}td.text,th.text,.claims td,.claims th,.fitted td,.fitted th{text-align:left;overflow-wrap:anywhere}
.records{font-size:.76rem}.records td:not(.text){white-space:nowrap}.records td:nth-child(5){white-space:normal}
details{margin:.4rem 0}summary{cursor:pointer;color:var(--soft);font-size:.9rem}.group>summary{font-size:1rem;color:var(--ink);font-weight:600;padding:.3rem 0}.group>summary .note{font-weight:400}
pre{background:var(--panel);padding:.6rem .8rem;border-radius:6px;font-size:.74rem;max-height:18rem;overflow:auto;user-select:all;-webkit-user-select:all;white-space:break-spaces;tab-size:4;overflow-wrap:anywhere}
.verdict{background:var(--panel);border-radius:8px;padding:.5rem .9rem;margin:.6rem 0}.verdict li{margin:.25rem 0;overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,19rem),1fr));gap:.2rem 1.4rem;font-size:.82rem}dl div{display:flex;gap:.6rem;min-width:0}dt{color:var(--soft);flex:none}dd{margin:0;overflow-wrap:anywhere;min-width:0}
.warning{color:var(--bad)}.printed{display:none}footer{border-top:1px solid var(--rule);margin-top:2.4rem;padding-top:.5rem;color:var(--soft);font-size:.86rem}
button.sort{all:unset;cursor:pointer;display:inline}button.sort:focus-visible{outline:2px solid var(--c0)}th[aria-sort=ascending] .sort::after{content:" \25B2"}th[aria-sort=descending] .sort::after{content:" \25BC"}
.filter,.unfold{font:inherit;font-size:.82rem;color:var(--ink);background:var(--card);border:1px solid var(--rule);border-radius:5px;padding:.15rem .5rem;max-width:100%}.unfold{cursor:pointer;color:var(--soft);margin-left:auto}
.readout{position:absolute;z-index:2;pointer-events:none;background:var(--card);border:1px solid var(--rule);border-radius:6px;padding:.3rem .55rem;font-size:.8rem;max-width:min(26rem,94vw);box-shadow:0 2px 8px #0003}.readout span{color:var(--ink);font-weight:400}
@media (max-width:68rem){.panels:not(.n1),.panels.n4,.panels.n7{grid-template-columns:repeat(2,minmax(0,1fr))}.tiles{grid-template-columns:repeat(auto-fill,minmax(min(100%,15rem),1fr))}}
@media (max-width:72rem){.stacks,.stacks.mean{grid-template-columns:minmax(0,1fr)}.records thead,.claims thead,.fitted thead{display:none}.records tr,.claims tr,.fitted tr{display:block;padding:.3rem 0;border-bottom:1px solid var(--rule)}.records td,.claims td,.fitted td{display:inline-block;border:0;padding:0 .7rem 0 0;text-align:left;white-space:normal!important}.records td:nth-child(-n+3){font-weight:600}
.records td:nth-child(n+4)::before,.claims td::before,.fitted td::before{color:var(--soft)}
.records td:nth-child(4)::before{content:"median "}.records td:nth-child(5)::before{content:"launches "}.records td:nth-child(6)::before{content:"min "}.records td:nth-child(7)::before{content:"p90 "}.records td:nth-child(8)::before{content:"p99 "}.records td:nth-child(9)::before{content:"p99.9 "}.records td:nth-child(10)::before{content:"max "}.records td:nth-child(11)::before{content:"n "}.records td:nth-child(12)::before{content:"of launches "}.records td:nth-child(13)::before{content:"% of bound "}
.claims td:nth-child(4)::before{content:"published "}.claims td:nth-child(5)::before{content:"model "}.claims td:nth-child(6)::before{content:"error "}
.labelled thead{display:none}.labelled tr{display:block;padding:.3rem 0;border-bottom:1px solid var(--rule)}.labelled td{display:inline-block;border:0;padding:0 .7rem 0 0;text-align:left;max-width:100%;overflow-wrap:anywhere}.labelled td.text{display:block;font-weight:600}.labelled td[data-of]::before{content:attr(data-of) " ";color:var(--soft)}}
@media (max-width:40rem){main{padding:.8rem .9rem 3rem}h1{font-size:1.15rem}ul.runs{font-size:.74rem;line-height:1.35}.tiles{grid-template-columns:minmax(0,1fr);gap:.4rem;margin:.6rem 0}
.tile{display:grid;grid-template-columns:9.6rem minmax(0,1fr);column-gap:.8rem;padding:.35rem .7rem .4rem;align-items:center}.tile h2{grid-column:1;grid-row:1;font-size:.78rem;justify-content:flex-start;gap:.35rem;white-space:nowrap}.word{font-size:.68rem;padding:0 .4rem}
.tile .value{font-size:1.3rem;grid-column:1;grid-row:2;white-space:nowrap;line-height:1.2}.tile .of{grid-column:2;grid-row:1;font-size:.76rem;line-height:1.2}.tile .spread{grid-column:2;grid-row:2;margin:0;font-size:.7rem;line-height:1.2}.tile .meter{grid-column:1;grid-row:3;margin:.1rem 0 0}.tile .share{grid-column:2;grid-row:3;margin:0;font-size:.7rem}
.tile .strip{grid-column:1/3;grid-row:4;height:16px;margin:0}.tile .standing{grid-column:1/3;grid-row:5}.standing summary{line-height:1.3}.standing summary{font-size:.72rem}.standing .next,.tile .aside{display:none}
.ratios td.drawn{width:7rem}.panels,.panels:not(.n1),.panels.n4,.panels.n7,.beside,.benchmarks,.benchmark.one:has(>details[open]){grid-template-columns:minmax(0,1fr)}.beside>*,.benchmark,.benchmark.one,.benchmark.one>*{grid-column:auto}}
@media print{:root{--paper:#fff;--card:#fff;--ink:#000;--soft:#444;--rule:#bbb;--panel:#f4f4f4}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}@page{margin:14mm}body{font-size:10pt}main{max-width:none;padding:0}
nav,.filter,.unfold,.readout,details:not([open]),.fold:not(:has(details[open])){display:none}.printed{display:block}.fold:has(.group[open])+.printed{display:none}details[open]>summary{list-style:none}pre{max-height:none;overflow:visible}
.tiles{grid-template-columns:repeat(5,minmax(0,1fr));gap:.4rem}.tile{padding:.4rem .45rem}.tile .value{font-size:1.15rem}.tile h2,.tile .of{font-size:.68rem}.tile .spread,.tile .share{font-size:.62rem}.word{font-size:.6rem;padding:0 .3rem}
.panels:not(.n1),.panels.n2,.panels.n4,.panels.n7{grid-template-columns:repeat(2,minmax(0,1fr));gap:.3rem .6rem}.tick,.name,.label,.end{font-size:12.5px}.question,.tile,.panel,.benchmark .about,figure,tr{break-inside:avoid}h2,h3{break-after:avoid}.question{margin-top:1rem}#changes{break-inside:auto}.standing table{font-size:.6rem}.standing td{overflow-wrap:anywhere}}
"#;
